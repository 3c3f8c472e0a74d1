"""The command `unweave bench`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unweave.cli.options import DeviceOption, OverwriteOption, PrecisionOption
from unweave.core.console import err, out
from unweave.core.files import write_atomically
from unweave.core.outputs import check_output, svg_bytes
from unweave.core.parallel import usable_cores

if TYPE_CHECKING:
    from unweave.bench import throughput as bench


def bench_command(
    device: DeviceOption = "auto",
    precision: PrecisionOption = "fp32",
    lanes: Annotated[str, typer.Option(help="Numbers of lanes to time, such as 1,16,64.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Time only the main objectives.")] = False,
    seconds: Annotated[float, typer.Option(min=0.05, help="Seconds for each measurement.")] = 1.0,
    svg: Annotated[Path | None, typer.Option(help="Also draw the results to this file.")] = None,
    overwrite: OverwriteOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Time training on this machine, and compare it with a plain PyTorch loop.

    Example:

      unweave bench --quick --lanes 1,16,64 --precision bf16
    """
    import torch

    from unweave.bench import throughput as bench
    from unweave.bench.chart import lanes_text, speed_chart
    from unweave.core.devices import machine
    from unweave.training import pick_device
    from unweave.training.precision import check_precision

    place = pick_device(device)
    torch.set_num_threads(usable_cores())
    counts = _counts(lanes) if lanes else ([1, 16, 64] if place.type == "cuda" else [1, 2])
    check_output(svg, "--svg", overwrite, (".svg",))
    figures: list[bench.Figure] = []
    try:
        for figure in bench.figures(place, check_precision(precision), counts, quick, seconds):
            figures.append(figure)
            each = f"{figure.microseconds:,.0f} us"
            err.print(f"{figure.name}, {lanes_text(figure.lanes)}: {each}")
    finally:  # if stopped or failed, show what was measured
        _show_figures(figures, as_json)
    if svg:
        title = f"Time for a step of one model, {machine(place)}, {precision}"
        write_atomically(svg, svg_bytes(speed_chart(figures, title)))


def _show_figures(figures: list[bench.Figure], as_json: bool) -> None:
    if as_json:
        out.print_json(data=[figure._asdict() for figure in figures])
        return
    rows = []
    for figure in figures:
        share = [f"{s:.1%}" if s else "" for s in (figure.arithmetic, figure.memory)]
        ratio = f"{figure.ratio:.1f}" if figure.ratio else ""
        numbers = [f"{figure.microseconds:,.0f}", f"{figure.images:,.0f}", ratio, *share]
        rows.append([figure.name, str(figure.lanes), *numbers])
    out.print_table(["", "lanes", "us", "images/s", "ratio", "flops", "bytes"], rows)
    out.print(
        "us: per step of one lane; ratio: speed-up over the plain loop in float32 (for beta-tcvae, "
        "that of beta-vae); flops, bytes: shares of what a large matrix product and copy reach",
    )


def _counts(text: str) -> list[int]:
    if not re.fullmatch(r"[1-9]\d{0,3}(,[1-9]\d{0,3})*", text):
        raise ValueError(f"expected numbers of lanes such as 1,16,64, below 10,000, got {text!r}")
    return [int(count) for count in text.split(",")]
