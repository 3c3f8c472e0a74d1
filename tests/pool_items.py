"""Functions that tests call in processes; there they import this file alone, without torch."""

import os
import signal
import time

import numpy as np  # noqa: F401  a library with threads of its own
from threadpoolctl import threadpool_info

from unweave.core import parallel


def run_item(item):
    """Return the item, the process, its share of the cores, and the threads of its libraries."""
    if item == "fail":
        raise ValueError("one")
    if item == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    pools = [pool["num_threads"] for pool in threadpool_info()]
    return item, os.getpid(), parallel.own_cores(), max(pools)


def interrupts(_):
    """Return whether interrupts were blocked when the process began, and what it does at one."""
    time.sleep(0.05)  # so that every process gets an item
    inherited = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    return inherited, signal.getsignal(signal.SIGINT)
