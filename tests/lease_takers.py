"""Processes that take leases, a clock that nobody waits for, and leases that were left."""

from unweave.core.processes import Process
from unweave.training.leases import Leases

NOBODY = Process("gone", "0", 1, 1)


def workers(count, dead=(), **options):
    """Return the leases of processes of one machine; those of `dead` seem to have ended."""
    ended = {NOBODY, *(Process("here", "0", each, 0) for each in dead)}.__contains__
    return [Leases(Process("here", "0", number, 0), ended, **options) for number in range(count)]


class Clock:
    """A clock that goes on when someone sleeps."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def leave(folder, process=NOBODY, number=1, content=None):
    """Leave a lease behind."""
    text = f'{{"worker": "{process}", "lease": "0"}}'
    (folder / f"lease-{number}.json").write_bytes(text.encode() if content is None else content)


def leases_in(folder):
    return sorted(path.name for path in folder.glob("lease-*"))
