"""Let a Ray node vanish from the network half way through a study, and time what follows.

    python benchmarks/lost_machine.py [--runs 20] [--steps 300] [--reachable]

A node whose process is killed closes its connections, so that Ray notices at once. A machine that
loses its power, or whose cable is pulled, does not: packets to it get no answer. Here one of two
nodes with a core each is in a network namespace of its own. When half of the runs are finished, all
packets between it and the head are lost, and its processes are killed; with --reachable they live
on and still see the store, as if only the network of Ray had failed. The exit code is 1 if a file
differs from that of the plain command, or is missing or left over. Run it as root on Linux, with
Ray and the command `ip`; it takes five minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import ray

HEAD, NODE, SPACE = "10.77.0.1", "10.77.0.2", "unweave-node"
PORT = 6399
ADDRESS = f"{HEAD}:{PORT}"
LINKS = f"""\
ip netns add {SPACE}
ip link add unweave0 type veth peer name unweave1
ip link set unweave1 netns {SPACE}
ip addr add {HEAD}/24 dev unweave0
ip link set unweave0 up
ip -n {SPACE} addr add {NODE}/24 dev unweave1
ip -n {SPACE} link set unweave1 up
ip -n {SPACE} link set lo up
"""
# In both directions, packets go to a link-layer address that no machine has.
LOST = f"""\
ip neigh replace {NODE} lladdr 02:00:00:00:00:01 nud permanent dev unweave0
ip -n {SPACE} neigh replace {HEAD} lladdr 02:00:00:00:00:02 nud permanent dev unweave1
"""
STUDY = (
    "train data=shapes2d data.side=16 data.positions=4 data.orientations=1 network=mlp "
    "network.hidden=[64] latent.size=4 batch_size=16 --device cpu --threads 1 --lanes 1"
)


def shell(lines: str) -> None:
    """Run commands."""
    subprocess.run(["sh", "-ec", lines], check=True, stdout=subprocess.DEVNULL)


def start_node(given: str, *before: str, **env: str) -> subprocess.Popen[bytes]:
    """Start a node of one core, which ends with the process that is returned."""
    command = f"ray start {given} --num-cpus 1 --disable-usage-stats --block".split()
    command[0] = str(Path(sys.executable).parent / "ray")
    printed = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([*before, *command], env={**os.environ, **env}, **printed)


def answers() -> bool:
    """Whether the head of the cluster takes connections."""
    with contextlib.suppress(OSError), socket.create_connection((HEAD, PORT), timeout=1):
        return True
    return False


def train(store: Path, given: argparse.Namespace, *on: str) -> subprocess.Popen[bytes]:
    """Start the command that trains the study; what it prints is in a file beside the store."""
    study = [*STUDY.split(), f"seed=0..{given.runs - 1}", f"steps={given.steps}"]
    with store.with_suffix(".txt").open("wb") as text:
        command = [sys.executable, "-m", "unweave", *study, "--store", str(store), *on]
        return subprocess.Popen(command, stdout=text, stderr=text)


def results(store: Path) -> dict[str, bytes]:
    """Return the files of all runs, and what else is in the store but logs of workers."""
    paths = (path for path in sorted(store.rglob("*")) if path.is_file())
    kept = (path for path in paths if path.parent.name != ".workers" or path.suffix != ".txt")
    return {str(path.relative_to(store)): path.read_bytes() for path in kept}


def finished(store: Path) -> int:
    """Return how many runs are finished."""
    return len(list(store.glob("*/weights.safetensors")))


def seconds_until(holds: Callable[[], object], begun: float) -> float:
    """Wait until something holds; return the seconds since `begun`."""
    while not holds():
        time.sleep(0.05)
    return time.monotonic() - begun


def is_lost() -> bool:
    """Whether Ray has given up one of the nodes."""
    return not all(node["Alive"] for node in ray.nodes())


def lose_node(store: Path, given: argparse.Namespace, driver: subprocess.Popen[bytes]) -> None:
    """Let the node vanish when half of the runs are finished, and print what follows."""
    seconds_until(lambda: finished(store) >= given.runs // 2, 0.0)
    found = subprocess.run(["ip", "netns", "pids", SPACE], check=True, capture_output=True)
    shell(LOST)
    begun, at = time.monotonic(), finished(store)
    if not given.reachable:
        for pid in map(int, found.stdout.split()):
            os.kill(pid, signal.SIGKILL)
    print(f"a node was lost when {at} of {given.runs} runs were finished", flush=True)
    print(f"Ray noticed after {seconds_until(is_lost, begun):.0f} s", flush=True)
    code = driver.wait()
    print(f"the study ended with code {code} after {time.monotonic() - begun:.0f} s", flush=True)


def main() -> None:
    """Train with and without the loss, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--reachable", action="store_true", help="its processes live on")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["RAY_TMPDIR"] = name  # a cluster that other commands do not find
        begun = time.monotonic()
        train(folder / "plain", given, "--on", "local").wait()
        print(f"one process, undisturbed: {time.monotonic() - begun:.0f} s", flush=True)
        shell(LINKS)
        nodes = []
        try:
            nodes.append(start_node(f"--head --node-ip-address {HEAD} --port {PORT}"))
            seconds_until(answers, 0.0)
            ray.init(address=ADDRESS, log_to_driver=False, logging_level="ERROR")
            joins = f"--address {ADDRESS} --node-ip-address {NODE}"
            nodes.append(start_node(joins, "ip", "netns", "exec", SPACE, UNWEAVE_HOST="lost"))
            seconds_until(lambda: len(ray.nodes()) == 2, 0.0)
            driver = train(folder / "lost", given, "--on", f"ray:address={ADDRESS}")
            lose_node(folder / "lost", given, driver)
        finally:
            ray.shutdown()
            for node in nodes:
                node.terminate()
                node.wait()
            shell(f"ip netns del {SPACE}; ip link del unweave0 2>/dev/null || true")
        expected, found = results(folder / "plain"), results(folder / "lost")
        text = (folder / "lost.txt").read_text()
    differ = [name for name in expected.keys() & found.keys() if expected[name] != found[name]]
    missing, left = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    print(
        f"{len(expected)} files of {given.runs} runs: {len(differ)} differ, {len(missing)} are "
        f"missing, {len(left)} are left over"
    )
    if wrong := differ + missing + left:
        print(*wrong, *text.splitlines()[-10:], sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
