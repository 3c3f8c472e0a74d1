"""An engine whose workers are calls in this process, which can die, lie and be interrupted."""

import itertools
from contextlib import contextmanager

import torch

from unweave.executors.driver import RemoteExecutor
from unweave.executors.worker import Ended, work


class FakePool:
    """Does the oldest task at every wait; `script` replaces the next answers if it has any."""

    slots, device, threads, memory, places = 2, "cpu", 1, None, None

    def __init__(self, script=()):
        self.script = iter(script)
        self.window, self.submitted, self.stopped = 4, [], False
        self._keys, self._waiting = itertools.count(), {}

    def probe(self, text):
        return self.submit([text])

    def submit(self, texts, avoid=frozenset()):
        keys = [next(self._keys) for _ in texts]
        self._waiting |= dict(zip(keys, texts, strict=True))
        self.submitted += [text for text in texts if '"probe": false' in text]
        return keys

    def wait(self, seconds):
        if not self._waiting:
            return {}
        key = next(iter(self._waiting))
        text = self._waiting.pop(key)
        if '"probe": true' in text:
            return {key: Ended.read(work(text))}
        answer = next(self.script, None)
        if answer is None:
            return {key: Ended.read(work(text))}
        return {key: answer(text) if callable(answer) else answer}

    def stop(self):
        self.stopped = True
        self._waiting = dict.fromkeys(self._waiting, '{"probe": true}')  # they end at once


class Fake(RemoteExecutor):
    """Trains by the fake engine; the pools that it opened are in `pools`."""

    def __init__(self, script=(), lanes=2, tries=3):
        self.script, self.lanes, self.tries, self.pools = script, lanes, tries, []

    def check(self):
        pass

    @contextmanager
    def open(self, device, store):
        threads = torch.get_num_threads()
        self.pools.append(FakePool(self.script))
        yield self.pools[-1]
        torch.set_num_threads(threads)
