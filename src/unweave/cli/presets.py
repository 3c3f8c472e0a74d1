"""`unweave presets` on the command line."""

from typing import Annotated

import typer

from unweave.core.console import out


def presets_command(
    name: Annotated[
        str | None, typer.Argument(help="A paper or a preset (by default all are listed).")
    ] = None,
) -> None:
    """List the experiments of papers, or print one as a TOML file for `train --from`.

    Examples:

      unweave presets

      unweave presets kim2018

      unweave presets kim2018/shapes2d-factor-vae > run.toml

      unweave train --from kim2018/shapes2d-factor-vae seed=0..2 steps=1000
    """
    from unweave.presets import preset, presets_of
    from unweave.presets.text import to_toml

    if name is not None and "/" in name:
        out.write(to_toml(preset(name)))
        return
    rows = []
    for each in presets_of(name):
        data = f"{each.download}, download" if each.download else each.run.data.kind
        rows.append([each.name, each.title, data, f"{each.count:,}"])
    out.print_table(["preset", "what", "data", "runs"], rows)
