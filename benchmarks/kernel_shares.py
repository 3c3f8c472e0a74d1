"""Where the time of a training step goes: python benchmarks/kernel_shares.py [--lanes 20].

Times steps of the FactorVAE of Kim & Mnih's figure 4 (or `--objective beta-vae`) side by side, and
prints the share of each kernel on a GPU, or of each operation on a CPU.
"""

from __future__ import annotations

import argparse
import dataclasses
import time

import torch
from torch.profiler import ProfilerActivity, profile

from unweave import kernels
from unweave.presets import preset
from unweave.training import Lanes, pick_device
from unweave.training.engine import Engine
from unweave.training.memory import reuse_memory
from unweave.training.precision import matmul_precision

PRESETS = {"factor-vae": "kim2018/shapes2d-factor-vae", "beta-vae": "kim2018/shapes2d-beta-vae"}


def main() -> None:
    """Print microseconds per step of one model, and a table of kernels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objective", choices=PRESETS, default="factor-vae")
    parser.add_argument("--lanes", type=int, default=20)
    parser.add_argument("--steps", type=int, default=500, help="that are timed")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="bf16")
    parser.add_argument("--rows", type=int, default=30, help="of the table")
    options = parser.parse_args()
    device = pick_device("auto")
    on_gpu = device.type == "cuda"
    run = preset(PRESETS[options.objective]).runs(["seed=0"])[0]
    dataset = run.data.load(device)
    runs = [dataclasses.replace(run, seed=s).resolve(dataset) for s in range(options.lanes)]
    activity = ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU

    def wait() -> None:
        if on_gpu:
            torch.cuda.synchronize()

    with kernels.on(device), matmul_precision(options.precision), reuse_memory(device):
        lanes = Lanes(runs, dataset, device, options.precision if on_gpu else "fp32", on_gpu)
        engine = Engine(lanes)
        engine.run(min(30, options.steps))  # compiles and records the step
        wait()
        began = time.perf_counter()
        engine.run(options.steps)
        wait()
        each = (time.perf_counter() - began) / options.steps / options.lanes
        print(f"{options.lanes} lanes of {options.objective}: {1e6 * each:.1f} us a step of one")
        with profile(activities=[activity]) as profiled:
            engine.run(min(20, options.steps))
            wait()
    order = "self_cuda_time_total" if on_gpu else "self_cpu_time_total"
    averages = profiled.key_averages()
    print(averages.table(sort_by=order, row_limit=options.rows, max_name_column_width=70))


if __name__ == "__main__":
    main()
