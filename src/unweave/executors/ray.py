"""Train on a Ray cluster."""

import contextlib
import json
import math
import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Hashable, Iterator, Sequence, Set
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from unweave.core.spec import Count, spec, tag
from unweave.core.text import error_line
from unweave.executors.driver import Pool, RemoteExecutor, import_engine
from unweave.executors.worker import Ended, work

_ANSWER = 10.0  # seconds until a cluster has to answer
_LOOK = 5.0  # seconds between two looks at the nodes
_FRAME = 9  # bytes of the header of an HTTP/2 frame: its length, type, flags and stream
_SETTINGS = b"\x04"  # the type of the first frame on each side of a connection
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + _SETTINGS + bytes(5)
_Share = Annotated[float, Field(ge=0)]


@spec
class Ray(RemoteExecutor):
    """Train on a Ray cluster, one task on each GPU: a running cluster, or one started here.

    The machines need unweave and a store that all of them see. Tasks whose worker or machine died
    are submitted again, and resume from their last checkpoint.
    """

    address: str | None = None
    """Address of the cluster, "auto" for one that runs here; by default that or a new one."""
    gpus: _Share | None = None
    """GPUs of a task, for which it waits if necessary; by default 1 if the cluster has any."""
    cpus: _Share = 1.0
    """CPU cores of a task."""
    lanes: Count | None = None
    """Runs in a task; by default as many as give every GPU work, at most 64."""
    tries: Count = 3
    """Submissions of a task without progress."""
    kind: Literal["ray"] = tag("ray")

    def check(self) -> None:
        """Raise a ValueError if Ray is not installed."""
        import_engine("ray", "ray")

    @contextlib.contextmanager
    def open(self, device: str, store: str) -> Iterator[Pool]:
        """Connect to the cluster, unless this process is connected."""
        ray = import_engine("ray", "ray")
        connected = ray.is_initialized()
        if not connected:
            self._connect(ray)
        try:
            with contextlib.closing(RayTasks(ray, self, device)) as tasks:
                yield tasks
        finally:
            if not connected:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        quiet = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
        address = self.address
        try:
            if address in (None, "auto"):
                address = _find_cluster(address)
            _check_answers(address or "")
            with _keep_sigterm():
                ray.init(address=address, **quiet)
        except Exception as error:  # Ray raises errors of many kinds, also plain ones
            if address in (None, "local"):
                raise ValueError(
                    f"cannot start a Ray cluster here ({error_line(error)}): start one with `ray "
                    "start --head` and run the command again"
                ) from None
            if _is_denied(error):
                raise ValueError(
                    f"the Ray cluster at {address} expects another token: set RAY_AUTH_MODE=token, "
                    "and copy ~/.ray/auth_token from the machine that started the cluster"
                ) from None
            raise ValueError(
                f"cannot reach a Ray cluster at {address} ({error_line(error)}): start one with "
                "`ray start --head`, or leave out the address to start one here"
            ) from None


def _is_denied(error: BaseException | None) -> bool:
    """Return whether a cluster has rejected the token of this process, or that it has none."""
    while error is not None:
        if "InvalidAuthToken" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


@contextlib.contextmanager
def _keep_sigterm() -> Iterator[None]:
    """Keep the handler of SIGTERM, which Ray replaces by one that exits."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _find_cluster(address: str | None) -> str | None:
    """Return the address of the cluster that Ray would find here, if it answers.

    Ray would wait minutes for a cluster that has ended. In that case None starts a new one here;
    "auto", which requires a running cluster, returns the old address.
    """
    if given := os.environ.get("RAY_ADDRESS"):
        return given
    path = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")
    if path.exists():
        last = path.read_text().strip()
        try:
            _check_answers(last)
        except OSError:
            return "local" if address is None else last
    return address


def _check_answers(address: str) -> None:
    """Raise an OSError unless a gRPC server, as Ray's are, answers at a host and port.

    Ray would wait for minutes, also for another service whose port was given by mistake.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return
    with socket.create_connection((host, int(port)), timeout=_ANSWER) as connection:
        if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
            return  # what follows would be encrypted
        connection.sendall(_PREFACE)
        answer = b""
        while len(answer) < _FRAME and (more := connection.recv(_FRAME - len(answer))):
            answer += more
    if answer[3:4] != _SETTINGS:
        raise ConnectionError("another service answers there")


def _work(text: str) -> str:
    """Do a task on a node, and name the node, also before it ends."""
    here = import_module("ray").get_runtime_context()
    node, key = here.get_node_id(), _key(here.get_task_id())
    _shared()._internal_kv_put(key, node.encode())
    try:
        return json.dumps(Ended.read(work(text))._replace(place=node))
    finally:
        _shared()._internal_kv_del(key)


def _key(task_id: str) -> bytes:
    """Return the key of the node of a task, among the values that a cluster shares."""
    return f"unweave-node-{task_id}".encode()


def _shared() -> Any:
    return import_module("ray.experimental.internal_kv")


class RayTasks:
    """Tasks on a Ray cluster."""

    memory: float | None = None

    def __init__(self, ray: Any, settings: Ray, device: str) -> None:
        self._ray = ray
        there = ray.cluster_resources().get("GPU", 0.0) if device != "cpu" else 0.0
        gpus = min(1.0, there) if settings.gpus is None else settings.gpus
        if device == "cuda" and not gpus:
            raise ValueError("--device cuda needs GPUs: use --on ray:gpus=1, or --device cpu")
        cpus = settings.cpus
        self._needs = {"GPU": gpus, "CPU": cpus}
        if not self._room:
            lacking = f"no machine of the Ray cluster has {gpus:g} GPUs and {cpus:g} cores"
            if settings.gpus is None:
                raise ValueError(
                    f"{lacking}: use fewer, such as --on ray:gpus=0,cpus=1; if machines join the "
                    f"cluster when tasks wait, say so with --on ray:gpus={gpus:g}"
                )
            warnings.warn(f"{lacking}; tasks wait until one joins", stacklevel=2)
        self.slots = max(1, self._room)
        self.device, self.threads = "cuda" if gpus else "cpu", max(1, int(cpus))
        # Retries are the driver's, which knows whether a task has made progress.
        self._work = ray.remote(max_retries=0)(_work)
        self._takes = {"num_gpus": gpus, "num_cpus": cpus}
        self._running: list[Any] = []
        self._avoiding: dict[Any, Set[str]] = {}  # nodes that submitted tasks avoid
        self._looked = -math.inf  # when we looked for nodes that are gone

    @property
    def _room(self) -> int:
        """How many tasks can run at once on the machines now in the cluster."""
        return sum(map(self._room_on, self._nodes))

    def _room_on(self, node: Any) -> int:
        needs = [(name, need) for name, need in self._needs.items() if need]
        return int(
            min((node["Resources"].get(name, 0.0) / need for name, need in needs), default=1)
        )

    @property
    def places(self) -> Set[str]:
        """The IDs of nodes that can do a task."""
        return {node["NodeID"] for node in self._nodes if self._room_on(node)}

    @property
    def _nodes(self) -> list[Any]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    @property
    def window(self) -> int:
        """Twice as many tasks as can run, so that none has to wait for the driver."""
        return 2 * max(1, self._room)  # one may come back

    def probe(self, text: str) -> list[Hashable]:
        """Ask one worker per machine; probes reserve no resources, so none has to queue."""
        on = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        for node in self._nodes:
            if node["Resources"].get("CPU"):
                there = on(node["NodeID"], soft=False)
                free = self._work.options(num_gpus=0, num_cpus=0, scheduling_strategy=there)
                self._running.append(free.remote(text))
        return list(self._running)

    def submit(self, texts: Sequence[str], avoid: Set[str] = frozenset()) -> list[Hashable]:
        """Submit a Ray task for each text."""
        options: dict[str, Any] = dict(self._takes)
        if avoid:
            on = import_module("ray.util.scheduling_strategies")
            others = {"ray.io/node-id": on.NotIn(*sorted(avoid))}
            options["scheduling_strategy"] = on.NodeLabelSchedulingStrategy(hard=others)
        refs = [self._work.options(**options).remote(text) for text in texts]
        self._running += refs
        self._avoiding |= dict.fromkeys(refs, avoid) if avoid else {}
        return refs

    def wait(self, seconds: float) -> dict[Hashable, Ended]:
        """Wait until tasks end."""
        self._cancel_stranded()
        if lost := self._lost():
            return lost
        if not self._running:
            time.sleep(seconds)
            return {}
        every = {"num_returns": len(self._running), "fetch_local": False}
        self._ray.wait(self._running, timeout=seconds)  # for the first one
        done, self._running = self._ray.wait(self._running, timeout=0, **every)
        for ref in done:
            self._avoiding.pop(ref, None)
        return {ref: self._ended(ref) for ref in done}

    def _lost(self) -> dict[Hashable, Ended]:
        """Return the tasks on nodes that are gone.

        Ray itself waits for their workers for up to seven minutes, if the network does not say that
        they are gone: when a machine has lost its power, say.
        """
        now = time.monotonic()
        if now - self._looked < _LOOK:
            return {}
        self._looked = now
        gone = {node["NodeID"] for node in self._ray.nodes() if not node["Alive"]}
        ended: dict[Hashable, Ended] = {}
        for ref in self._running if gone else ():
            node = (_shared()._internal_kv_get(_key(ref.task_id().hex())) or b"").decode()
            if node in gone:
                ended[ref] = Ended("died", f"its node {node} was lost", place=node)
        self._running = [ref for ref in self._running if ref not in ended]
        for ref in ended:
            self._avoiding.pop(ref, None)
        return ended

    def _cancel_stranded(self) -> None:
        """Return tasks to the driver that avoid all nodes there are, since others have left."""
        if self._avoiding and (there := self.places):
            for ref, avoid in self._avoiding.items():
                if not there - avoid:
                    self._ray.cancel(ref, force=False, recursive=False)

    def _ended(self, ref: Any) -> Ended:
        errors = self._ray.exceptions
        try:
            return Ended.read(self._ray.get(ref))
        except errors.TaskCancelledError:
            return Ended("stopped")
        except errors.RayTaskError as error:  # the worker has no unweave, say
            return Ended("failed", f"a worker cannot start: {error_line(error, -1)}")
        except errors.RayError as error:
            nodes = (node["NodeID"] for node in self._ray.nodes())
            place = next((node for node in nodes if node in str(error)), "")
            return Ended("died", error_line(error), place=place)

    def stop(self) -> None:
        """Cancel the tasks, which save their runs first."""
        self._cancel(force=False)

    def close(self) -> None:
        """Kill the tasks that are still running."""
        self._cancel(force=True)

    def _cancel(self, force: bool) -> None:
        for ref in self._running:
            self._ray.cancel(ref, force=force, recursive=False)
