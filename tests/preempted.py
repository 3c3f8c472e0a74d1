"""An objective that preempts the first process that trains it, as Slurm does."""

import os
import signal
from itertools import count
from pathlib import Path

import unweave as uw

_losses = count()


@uw.spec
class Preempted(uw.VAE):
    """Sends SIGUSR2 to its process at the tenth loss, if the file in PREEMPTED is not there yet."""

    def loss(self, forward, batch, noise):
        path = Path(os.environ.get("PREEMPTED", os.devnull))
        if next(_losses) == 10 and not path.exists():
            path.touch()
            os.kill(os.getpid(), signal.SIGUSR2)
        return super().loss(forward, batch, noise)
