"""Start a Slurm of one node and check what docs/scale.md says of it. Run it as root on Debian.

    python benchmarks/slurm_cluster.py [--folder FOLDER] [--checks time_limit,preempted]

Nothing is installed: Debian's packages are downloaded by name and unpacked in the folder, which is
a temporary one by default, and the daemons end with this script. There is no munge and no
accounting. Every check compares the bytes of all files with those of the plain command. The exit
code is 1 if one fails. The objective sleeps at every step of a job, so that a run takes as long on
a busy machine: two minutes, and half a minute if it has few steps. It takes 12 minutes, and needs
submitit: pip install 'unweave[slurm]'.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import unweave as uw
from unweave.objectives import Term
from unweave.training.status import read_status

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins")
CONF = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
PluginDir={plugins}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,batch_sched_delay=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN RealMemory=20000
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=60
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF
"""
PAUSE = "UNWEAVE_BENCHMARK_PAUSE"  # seconds that a step takes longer
LONG, SHORT = 4000, 1000  # steps
STUDY = [
    *("data=shapes2d", "data.side=16", "data.positions=4", "data.orientations=1", "network=mlp"),
    *("network.hidden=[16]", "latent.size=3", "batch_size=16", "objective=slurm_cluster:SlowVAE"),
    *("--device", "cpu", "--threads", "1", "--lanes", "1"),
]
SLURM = ("--on", "slurm:gpus=0,cpus=1,gigabytes=1,minutes=5,jobs=2")
PATIENCE = 1200.0  # seconds until a check fails


@uw.spec
class SlowVAE(uw.VAE):
    """A VAE that waits in every step for as many seconds as PAUSE says."""

    def loss(self, forward: Any, batch: Any, noise: Any) -> dict[str, Term]:
        """Return the two terms, later."""
        time.sleep(float(os.environ.get(PAUSE, "0")))
        return super().loss(forward, batch, noise)


def unpack(folder: Path) -> Path:
    """Download Slurm and what it needs, and unpack it; return the folder of programs."""
    simulated = ["apt-get", "-s", "install", "--no-install-recommends", *PACKAGES]
    lines = subprocess.run(simulated, check=True, capture_output=True, text=True).stdout
    names = [line.split()[1] for line in lines.splitlines() if line.startswith("Inst ")]
    if names:
        subprocess.run(["apt-get", "-q", "download", *names], cwd=folder, check=True)
    for each in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", each, folder], check=True)
    return folder / "usr" if names else Path("/usr")


def start(folder: Path) -> list[subprocess.Popen[bytes]]:
    """Start the two daemons, and wait until the node takes jobs."""
    programs = unpack(folder)
    plugins = next(programs.glob("lib/*/slurm-wlm"))
    host = os.uname().nodename.partition(".")[0]
    (folder / "slurm.conf").write_text(CONF.format(host=host, plugins=plugins, folder=folder))
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    os.environ["LD_LIBRARY_PATH"] = f"{plugins}:{plugins.parent}"
    os.environ["PATH"] = f"{programs}/bin:{programs}/sbin:{os.environ['PATH']}"
    for name in ("state", "spool"):
        (folder / name).mkdir(exist_ok=True)
    steps = ("-d", str(programs / "sbin/slurmstepd-wlm"))
    commands = ("slurmctld-wlm", "-D", "-c"), ("slurmd-wlm", "-D", "-c", *steps)
    daemons = [subprocess.Popen(each, stderr=subprocess.DEVNULL) for each in commands]
    wait_until(lambda: "idle" in slurm("sinfo", "-h", "-o", "%T"))
    return daemons


def slurm(*command: str) -> str:
    """Return what a command of Slurm prints."""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def wait_until(holds: Callable[[], object]) -> None:
    """Wait until something holds, or fail."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.2)


def train(store: Path, steps: int, seeds: str, *on: str, **more: str) -> subprocess.Popen[str]:
    """Start the command that trains a study."""
    command = [sys.executable, "-m", "unweave", "train", *STUDY, f"steps={steps}", f"seed={seeds}"]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    pause = {PAUSE: "0.03"} if on else {}
    env = os.environ | pause | more
    return subprocess.Popen([*command, "--store", store, *on], env=env, **pipes)


def end(process: subprocess.Popen[str], code: int = 0) -> str:
    """Wait until a command has ended, and return the last words of it."""
    text = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == code, f"exit code {process.returncode}: {text[-600:]}"
    return text


def is_training(store: Path) -> bool:
    """Whether a worker has taken a step."""
    return any(worker.step for worker in read_status(store).workers)


def files(store: Path) -> dict[str, bytes]:
    """Return the files of all runs."""
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in store.glob("*/*")
        if path.parent.name[0] != "."
    }


class Checks:
    """What is checked; each has a store of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for steps, seeds in ((LONG, "0"), (SHORT, "0..5")):
            end(train(root / f"plain{steps}", steps, seeds))

    def same(self, store: Path, steps: int) -> None:
        """Compare the bytes of a study with those of the plain command."""
        assert files(store) == files(self.root / f"plain{steps}"), "files differ"

    def in_parts(self, store: Path) -> str:
        """Check a run that was saved and queued again."""
        self.same(store, LONG)
        attempts = sum(log.read_text().count(" cpu: ") for log in store.glob(".workers/*.txt"))
        assert attempts > 1, "the job was not queued again"
        return f"trained in {attempts} parts"

    def time_limit(self, store: Path) -> str:
        """Jobs of three minutes, which SBATCH_TIMELIMIT sets, save after 30 to 90 seconds."""
        end(train(store, LONG, "0", *SLURM, SBATCH_TIMELIMIT="3"))
        return self.in_parts(store)

    def killed(self, store: Path) -> str:
        """The job's Python is killed, as if memory had run out."""
        driver = train(store, LONG, "0", *SLURM)
        wait_until(lambda: is_training(store))
        names = f"^{sys.executable} -u -m submitit.core._submit {store}/.workers/slurm"
        for pid in slurm("pgrep", "-f", names).split():
            os.kill(int(pid), signal.SIGKILL)
        start = time.monotonic()
        wait_until(lambda: len(list(store.glob(".workers/slurm/*_log.out"))) > 1)
        seconds = time.monotonic() - start
        end(driver)
        self.same(store, LONG)
        return f"another job ran after {seconds:.0f} s"

    def unseen(self, store: Path) -> str:
        """The store is in a file system that only the driver has mounted."""
        (store / "runs").mkdir(parents=True)
        command = [sys.executable, "-m", "unweave", "train", *STUDY, "steps=9", *SLURM]
        text = f'mount -t tmpfs none {store} && exec "$@" --store {store}/runs'
        given = ["unshare", "-m", "sh", "-c", text, "sh", *command]
        start = time.monotonic()
        last = end(subprocess.Popen(given, stderr=subprocess.PIPE, text=True), 2)
        assert "the jobs cannot see this folder" in last, last
        return f"one line after {time.monotonic() - start:.0f} s"

    def preempted(self, store: Path) -> str:
        """A job of a partition that comes first takes the node for ten seconds."""
        driver = train(store, LONG, "0", *SLURM)
        wait_until(lambda: is_training(store))
        slurm("sbatch", "-p", "high", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 10")
        end(driver)
        return self.in_parts(store)

    def ctrl_c(self, store: Path) -> str:
        """Two of six jobs run and the others wait."""
        driver = train(store, SHORT, "0..5", *SLURM)
        wait_until(lambda: is_training(store))
        start = time.monotonic()
        driver.send_signal(signal.SIGINT)
        end(driver, 130)
        seconds = time.monotonic() - start
        listed = slurm("squeue", "-h", "-r", "-o", "%i").split()
        left = [each for each in listed if list(store.glob(f".workers/slurm/{each}_*"))]
        assert not left, f"jobs are left: {left}"
        end(train(store, SHORT, "0..5", *SLURM))
        self.same(store, SHORT)
        return f"ended after {seconds:.0f} s, and the same command completed the study"

    def sigterm(self, store: Path) -> str:
        """The driver is ended; its jobs go on, and the same command takes them over."""
        driver = train(store, SHORT, "0..5", *SLURM)
        wait_until(lambda: is_training(store))
        driver.terminate()
        assert "will go on" in end(driver, driver.wait(PATIENCE)), "the jobs are not named"
        end(train(store, SHORT, "0..5", *SLURM))
        self.same(store, SHORT)
        arrays = {path.name.partition("_")[0] for path in store.glob(".workers/slurm/*_log.out")}
        assert len(arrays) == 1, f"tasks were submitted again: {arrays}"
        return "the same command took the jobs over"


def main() -> None:
    """Start Slurm, check, and stop it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, help="by default a temporary folder")
    parser.add_argument("--checks", default="time_limit,killed,unseen,ctrl_c,sigterm,preempted")
    given = parser.parse_args()
    chosen = given.checks.split(",")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH", "")]
    )
    folder = given.folder or Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.mkdir(exist_ok=True)
    daemons = start(folder.resolve())
    failed = 0
    try:
        checks = Checks(folder.resolve())

        def check(name: str) -> bool:
            begun = time.monotonic()
            try:
                text = getattr(checks, name)(folder.resolve() / name)
            except Exception as error:
                text = f"FAILED: {error!r}"
            print(f"{name:<12} {time.monotonic() - begun:4.0f} s  {text}", flush=True)
            return text.startswith("FAILED")

        print(slurm("sinfo", "--version").strip(), flush=True)
        with ThreadPoolExecutor() as threads:  # these wait most of the time
            failed += sum(threads.map(check, (name for name in chosen if name != "preempted")))
        failed += "preempted" in chosen and check("preempted")  # which takes the whole node
    finally:
        for daemon in daemons:
            daemon.terminate()
            daemon.wait()
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
