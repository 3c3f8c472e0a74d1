"""Run functions side by side, one at a time, and switch between them before chosen operations."""

import itertools
import os
import threading

from unweave.core.files import Disk


class Schedule:
    """Threads of which one runs; `switches` says before which operation which one continues."""

    def __init__(self, switches, check):
        self.switches, self.check, self.operations = switches, check, 0
        self.current, self.errors, self.threads = 0, [], []

    def run(self, functions):
        """Run all functions to their end."""
        self.turns = [threading.Semaphore(0) for _ in functions]
        self.running = set(range(len(functions)))
        self.threads = [
            threading.Thread(target=self._call, args=each) for each in enumerate(functions)
        ]
        for thread in self.threads:
            thread.start()
        self.turns[0].release()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive()
        for error in self.errors:
            raise error

    def point(self):
        """Continue with another function, if one is chosen before this operation.

        Operations of other threads, such as one that an earlier test left, do not count.
        """
        if threading.current_thread() not in self.threads:
            return
        self.check()
        self.operations += 1
        chosen = self.switches.get(self.operations)
        if chosen in self.running:
            self._switch(chosen)

    def sleep(self, seconds):
        """Let the others run."""
        self._switch(self._next())

    def _next(self):
        after = [number for number in sorted(self.running) if number > self.current]
        return (after or sorted(self.running))[0]

    def _switch(self, to):
        own, self.current = self.current, to
        if to != own:
            self.turns[to].release()
            self.turns[own].acquire()

    def _call(self, number, function):
        self.turns[number].acquire()
        try:
            function()
        except BaseException as error:
            self.errors.append(error)
        self.running.discard(number)
        if self.running:
            self.current = self._next()
            self.turns[self.current].release()


class ScheduledDisk(Disk):
    """A disk whose operations are points of a schedule, and whose folders are not read at once."""

    def __init__(self, schedule):
        self.schedule = schedule

    def create(self, path, content):
        self.schedule.point()
        return super().create(path, content)

    def write(self, file, content):
        self.schedule.point()
        return super().write(file, content)

    def read(self, path):
        self.schedule.point()
        return super().read(path)

    def names(self, folder):
        """Miss names that appear or disappear during the reading, as `readdir` may."""
        before = os.listdir(folder)
        self.schedule.point()
        return sorted({*before} & {*os.listdir(folder)})

    def unlink(self, path):
        self.schedule.point()
        super().unlink(path)


class OldLists(ScheduledDisk):
    """A network file system with which a process sees an old list of names for some looks.

    It sees a new one after it has created or deleted a file itself.
    """

    LOOKS = 6

    def __init__(self, schedule):
        super().__init__(schedule)
        self.lists = {}  # by thread

    def names(self, folder):
        names, looks = self.lists.get(threading.current_thread(), ([], 0))
        if looks:
            self.schedule.point()
        else:
            names, looks = super().names(folder), self.LOOKS
        self.lists[threading.current_thread()] = names, looks - 1
        return names

    def create(self, path, content):
        created = super().create(path, content)
        if created:
            self.lists.pop(threading.current_thread(), None)
        return created

    def unlink(self, path):
        super().unlink(path)
        self.lists.pop(threading.current_thread(), None)


def all_switches(operations, workers, most):
    """Yield every choice of at most `most` switches before operations."""
    for count in range(most + 1):
        for places in itertools.combinations(range(1, operations + 1), count):
            for targets in itertools.product(range(workers), repeat=count):
                yield dict(zip(places, targets, strict=True))
