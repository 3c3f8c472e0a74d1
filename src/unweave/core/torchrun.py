"""What `torchrun` tells the processes that it starts, by environment variables.

Commands read this before anything else, so it needs only the standard library.
"""

import os
from datetime import timedelta

_ERROR = "unweave/error"  # under which the first process stores its error
_PATIENCE = timedelta(seconds=5)  # of the other processes, to wait for it


def launched() -> bool:
    """Return whether `torchrun` started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def rank() -> int:
    """Return the number of this process among all, from 0; the first one prints and writes."""
    return int(os.environ["RANK"]) if launched() else 0


def local_rank() -> int:
    """Return the number of this process among those of its machine, from 0."""
    return int(os.environ["LOCAL_RANK"]) if launched() else 0


def local_size() -> int:
    """Return how many processes there are on this machine."""
    return int(os.environ["LOCAL_WORLD_SIZE"]) if launched() else 1


def is_repeated(error: str) -> bool:
    """Return whether the first process reports the same error, so that this one need not.

    The first process calls this too, which lets the others know.
    """
    if not launched():
        return False
    import torch.distributed as dist

    try:
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = dist.TCPStore(address, port, is_master=False, timeout=_PATIENCE)  # type: ignore[attr-defined]
        if rank():
            return bool(store.get(_ERROR) == error.encode())
        store.set(_ERROR, error)
    except RuntimeError:  # torchrun has ended, or the first process has no error
        pass
    return False
