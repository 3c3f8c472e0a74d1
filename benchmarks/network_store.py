"""Train one study on two machines at once, whose store is on a real network file system.

    python benchmarks/network_store.py [SYSTEM ...] [--checks CHECK,...] [--runs 40] [--steps 300]

Systems: nfs is NFS-Ganesha, mounted with version 4.2 by two Linux kernels (User Mode Linux), which
are the two machines; nfs-cached uses version 3 and keeps names and attributes for a minute.
glusterfs is mounted twice, once for each host name; so is sshfs, and sshfs-cached, which trusts all
of its caches for a minute.

Checks: in `once`, both machines run the same command, and the second also runs `status`, `runs` and
`evaluate` again and again; in `killed`, one of them is killed half way; in `frozen`, the server
is stopped for 80 seconds, longer than a lease lives; in `vanished`, the process that serves the
first mount (with NFS, the server) is killed, and mounted or started again after 20 seconds. A
command that failed is repeated once. The objective counts its steps, and all files are compared
with those of the same command on a disk. The exit code is 1 if a file differs, is missing or is
left over.

Run it as root on Debian with the packages nfs-ganesha, nfs-ganesha-vfs, nfs-common, rpcbind,
user-mode-linux, glusterfs-server, glusterfs-client, sshfs and openssh-server, and the command `ip`.
The repository must not be in /tmp, which the machines of nfs do not share. Servers listen in a
network namespace of their own, which nothing else can reach. It takes about an hour on two busy
cores. Mounts and processes are in namespaces too, and end with the script, however it ends.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

FROZEN = 80.0  # seconds that the server does not answer, longer than a lease lives
COMMAND = (
    "train data=shapes2d data.side=16 data.positions=4 data.orientations=1 network=mlp "
    "network.hidden=[64] latent.size=4 batch_size=16 objective=hundred_kills:CountedVAE "
    "--device cpu --threads 1 --lanes 2 --checkpoint-seconds 1"
)
COUNTS = "UNWEAVE_BENCHMARK_COUNTS"  # where the objective counts its steps
HERE = Path(__file__).absolute().parent
ISOLATED = "setpriv --pdeathsig KILL unshare --mount --net --pid --fork --kill-child --mount-proc"


def until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s in vain")
        time.sleep(0.05)


def named(names: Collection[str]) -> list[int]:
    """Return the processes of these names; all processes that are visible here are ours."""
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if path.read_text().strip() in names:
                found.append(int(path.parent.name))
    return found


def signal_all(number: int, names: Collection[str]) -> None:
    """Send a signal to all processes of these names."""
    for pid in named(names):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def shell(command: str) -> None:
    """Run commands."""
    subprocess.run(["bash", "-ec", command], check=True, stdout=subprocess.DEVNULL)


class Command:
    """A command that runs on a machine, with its output and exit code in files."""

    def __init__(self, script: Path) -> None:
        self.output, self._code = script.with_suffix(".txt"), script.with_suffix(".code")

    @property
    def code(self) -> int | None:
        """The exit code, None while it runs."""
        return int(self._code.read_text()) if self._code.exists() else None

    @property
    def reason(self) -> str:
        """Why it failed, which it printed last; "" if it has not failed."""
        lines = self.output.read_text().splitlines() or ["it printed nothing"]
        traceback = " (after a traceback)" * any(line.startswith("Traceback") for line in lines)
        return f": {lines[-1]}{traceback}" if self.code else ""

    def wait(self) -> int:
        """Wait for its end."""
        until(lambda: self.code is not None, 900)
        return self.code or 0


class Machine:
    """A machine that has mounted the store: here a host name and a mount of its own."""

    def __init__(self, name: str, folder: Path, system: Any) -> None:
        self.name, self.system, self.started = name, system, 0
        self.control, self.point = folder / name, folder / f"{name}-mount"
        self.control.mkdir()
        self.point.mkdir()
        self._pids: list[int] = []
        self.boot()

    def boot(self) -> None:
        """Mount the store, and note the process that serves the mount."""
        before = named(self.system.clients)
        shell(self.system.mounting.format(point=self.point, self=self.system))
        (self.client,) = set(named(self.system.clients)) - set(before)

    def start(self, arguments: str) -> Command:
        """Start an unweave command."""
        self.started += 1
        script = self.control / f"{self.started}.sh"
        beside = script.with_suffix(".part")
        beside.write_text(
            f"export {COUNTS}={self.control}/counts PYTHONPATH={HERE} PATH={os.environ['PATH']}\n"
            f"cd {self.control}\n{sys.executable} -m unweave --import hundred_kills {arguments}\n"
        )
        (self.control / "counts").mkdir(exist_ok=True)
        beside.rename(script)
        self.execute(script)
        return Command(script)

    def execute(self, script: Path) -> None:
        """Execute a script under the machine's host name."""
        run = f"hostname {self.name}; sh {script} > {script.with_suffix('.txt')} 2>&1 < /dev/null"
        end = f"echo $? > {script}.part; mv {script}.part {script.with_suffix('.code')}"
        command = ["unshare", "--uts", "sh", "-c", f"{run}; {end}"]
        self._pids.append(subprocess.Popen(command, start_new_session=True).pid)

    def kill(self) -> None:
        """End all of its commands by SIGKILL."""
        for pid in self._pids:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

    def close(self) -> None:
        """End everything, and unmount the store."""
        self.kill()
        if self.point.is_mount():
            shell(f"umount -l {self.point}")


def steps_in(folder: Path) -> int:
    """Return how many steps the processes have taken that count them in a folder."""
    return sum(path.stat().st_size for path in folder.glob("counts/*"))


BOOT = """\
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /run
mount -t tmpfs tmp /tmp
mount -t tmpfs tmp /dev/shm
mkdir -p {machine.control} {machine.point} /run/lib/modules
mount -t hostfs none {machine.control} -o {machine.control}
ln -s /usr/lib/uml/modules/$(uname -r) /run/lib/modules/
modprobe -d /run nfsv3
modprobe -d /run nfsv4
hostname {machine.name}
ip link set lo up
ip address add 10.78.1.{number}/24 dev vec0
ip link set vec0 up
mount -t nfs -o {system.options} {system.address}:{system.source} {machine.point} || halt -f
cd {machine.control}
touch booted
while true; do
    for script in *.sh; do
        [ -e $script ] || continue
        name=${{script%.sh}}
        mv $script $name.begun
        (sh $name.begun > $name.txt 2>&1 < $0; echo $? > $name.end; mv $name.end $name.code) &
    done
    sleep 0.1
done
"""


class VirtualMachine(Machine):
    """A Linux kernel of its own (User Mode Linux), with the NFS client of that kernel."""

    def boot(self) -> None:
        """Start the kernel, which sees this machine's files, but can only write in `control`."""
        self.system.machines += 1
        number = 1 + self.system.machines
        tap = f"tap{number}"
        shell(f"ip tuntap add {tap} mode tap; ip link set {tap} master br0 up")
        script = self.control / "boot"
        script.write_text(BOOT.format(machine=self, system=self.system, number=number))
        script.chmod(0o755)
        command = (
            "linux.uml mem=3G root=/dev/root rootfstype=hostfs rootflags=/ ro con=null "
            f"con0=null,fd:1 vec0:transport=tap,ifname={tap} init={script}"
        )
        with (self.control / "console").open("wb") as text:
            given = {"stdin": subprocess.DEVNULL, "stdout": text, "stderr": text}
            kernel = subprocess.Popen(command.split(), **given, start_new_session=True)
        self._pids = [kernel.pid]
        until(lambda: (self.control / "booted").exists())

    def execute(self, script: Path) -> None:
        """The machine finds the script."""


class NFS:
    """NFS-Ganesha as the server, and two Linux kernels with their NFS clients as the machines."""

    machine = VirtualMachine
    servers = ("ganesha.nfsd",)
    address, source = "10.78.1.1", "/study"

    def __init__(self, options: str, folder: Path) -> None:
        self.options, self.folder, self.export = options, folder, folder / "export"
        self.machines = 0
        self.export.mkdir()
        (folder / "recovery").mkdir()
        (folder / "ganesha.conf").write_text(f"""
            NFS_CORE_PARAM {{
                Protocols = 3, 4; NFS_Port = 2049; MNT_Port = 20048; Bind_addr = {self.address};
                Enable_NLM = false; Enable_RQUOTA = false; mount_path_pseudo = true;
            }}
            NFSv4 {{ Lease_Lifetime = 90; Grace_Period = 5; RecoveryRoot = {folder}/recovery; }}
            EXPORT {{
                Export_Id = 1; Path = {self.export}; Pseudo = /study; Access_Type = RW;
                Squash = No_Root_Squash; SecType = sys; FSAL {{ Name = VFS; }}
            }}
        """)
        shell(f"""
            ip link add br0 type bridge
            ip address add {self.address}/24 dev br0
            ip link set br0 up
            mount -t tmpfs run /run
            mkdir /run/rpcbind /run/ganesha
            rpcbind -w -h {self.address}
        """)
        self.serve()

    def serve(self) -> None:
        """Start the server."""
        shell(f"cd {self.folder}; ganesha.nfsd -f $PWD/ganesha.conf -L $PWD/log -p $PWD/pid")
        time.sleep(6)

    def lose(self, _machine: Machine) -> None:
        """End the server."""
        signal_all(signal.SIGKILL, self.servers)

    def restore(self, _machine: Machine) -> None:
        """Start the server again."""
        self.serve()


class Fuse:
    """A file system whose clients are processes."""

    machine = Machine

    def lose(self, machine: Machine) -> None:
        """End the process that serves the mount of a machine."""
        os.kill(machine.client, signal.SIGKILL)

    def restore(self, machine: Machine) -> None:
        """Mount it again."""
        shell(f"umount -l {machine.point}")
        machine.boot()


class Sshfs(Fuse):
    """OpenSSH as the server and sshfs as the client, which caches lists of names for 20 s."""

    servers, clients = ("sftp-server",), ("sshfs",)
    mounting = (
        "sshfs -o port=2222,IdentityFile={self.folder}/user,StrictHostKeyChecking=no,"
        "UserKnownHostsFile=/dev/null,{self.options} root@127.0.0.1:{self.export} {point}"
    )

    def __init__(self, options: str, folder: Path) -> None:
        self.options, self.folder, self.export = options, folder, folder / "export"
        self.export.mkdir()
        shell(f"""
            mount -t tmpfs run /run
            mkdir /run/sshd
            cd {folder}
            ssh-keygen -q -t ed25519 -N '' -f host
            ssh-keygen -q -t ed25519 -N '' -f user
            printf '%s\\n' 'Port 2222' 'ListenAddress 127.0.0.1' 'HostKey {folder}/host' \\
                'AuthorizedKeysFile {folder}/user.pub' 'StrictModes no' 'UsePAM no' \\
                'PermitRootLogin yes' 'Subsystem sftp /usr/lib/openssh/sftp-server' > sshd_config
            /usr/sbin/sshd -f sshd_config
        """)


class Gluster(Fuse):
    """GlusterFS with one brick and its default translators, which cache content for a second."""

    servers, clients = ("glusterfsd",), ("glusterfs",)
    mounting = "mount -t glusterfs 10.78.0.1:/study {point}"

    def __init__(self, folder: Path) -> None:
        self.export = folder / "export"
        for name in ("export", "var", "log"):
            (folder / name).mkdir()
        shell(f"""
            ip address add 10.78.0.1/32 dev lo
            mount -t tmpfs run /run
            mkdir /run/gluster
            mount --bind {folder}/var /var/lib/glusterd
            mount --bind {folder}/log /var/log/glusterfs
            glusterd
            for n in $(seq 30); do gluster --mode=script volume list && break; sleep 1; done
            gluster --mode=script volume create study 10.78.0.1:{self.export} force
            gluster --mode=script volume start study
        """)


MINUTE = (
    "auto_cache,attr_timeout=60,entry_timeout=60,negative_timeout=60,dcache_timeout=60,"
    "dcache_stat_timeout=60,dcache_dir_timeout=60,dcache_link_timeout=60"
)
SYSTEMS = {
    "nfs": partial(NFS, "vers=4.2"),
    "nfs-cached": partial(NFS, "vers=3,nolock,actimeo=60"),
    "glusterfs": Gluster,
    "sshfs": partial(Sshfs, "rw"),
    "sshfs-cached": partial(Sshfs, MINUTE),
}


def results(store: Path) -> dict[str, bytes]:
    """Return all files of a store by name, but the logs of workers and scores."""
    paths = (path for path in sorted(store.rglob("*")) if path.is_file())
    kept = (path for path in paths if path.name not in ("scores.json", "table.npz"))
    return {str(path.relative_to(store)): path.read_bytes() for path in kept}


class Study:
    """A study on a network file system, and what the same study leaves on a disk."""

    def __init__(self, given: argparse.Namespace, expected: dict[str, bytes], steps: int) -> None:
        self.given, self.expected, self.plain_steps = given, expected, steps
        self.wrong = False

    def begin(self, name: str, folder: Path, system: Any) -> None:
        """Start the study on two machines."""
        folder.mkdir()
        self.name, self.system = name, system
        self.store = system.export / name
        self.machines = [system.machine(f"{name}-{each}", folder, system) for each in "ab"]
        self.begun = time.monotonic()
        self.commands = [self.train(machine) for machine in self.machines]

    def train(self, machine: Machine) -> Command:
        """Start the command on a machine."""
        return machine.start(f"{self.given.command} --store {machine.point}/{self.name}")

    def reach(self, share: float) -> None:
        """Wait until a share of the runs is finished."""
        runs = share * self.given.runs
        until(lambda: len(self.finished()) >= runs or any(c.code for c in self.commands), 600)

    def finished(self) -> list[str]:
        """Return the runs that are finished."""
        return sorted(path.parent.name for path in self.store.glob("*/weights.*"))

    def end(self, *lines: str) -> None:
        """Compare files and steps, print a line, and stop the machines."""
        found, expected = results(self.store), self.expected
        differ = [name for name in expected.keys() & found.keys() if expected[name] != found[name]]
        missing, left = expected.keys() - found.keys(), found.keys() - expected.keys()
        steps = [steps_in(machine.control) for machine in self.machines]
        again, shares = sum(steps) - self.plain_steps, [f"{n / sum(steps):.0%}" for n in steps]
        print(
            f"{self.name:9s}{time.monotonic() - self.begun:5.0f} s  {again:6,} steps taken again "
            f"({' and '.join(shares)}); {len(expected)} files: {len(differ)} differ, "
            f"{len(missing)} missing, {len(left)} left over",
            *lines,
            sep="\n            ",
        )
        names = [*differ, *sorted(missing), *sorted(left)][:10]
        print(*(f"           ! {name}\n" for name in names), sep="", end="", flush=True)
        self.wrong |= bool(names)
        for machine in self.machines:
            machine.close()

    def codes(self) -> list[str]:
        """Wait for the two commands, repeat those that failed, and describe how they ended."""
        pairs = [*zip(self.machines, self.commands, strict=True)]
        lines = [f"{m.name[-1]} ended with code {each.wait()}{each.reason}" for m, each in pairs]
        for machine in (machine for machine, each in pairs if each.code):
            each = self.train(machine)
            lines.append(f"{machine.name[-1]} again: code {each.wait()}{each.reason}")
        return lines


def once(study: Study) -> list[str]:
    """Look at the store from the second machine while both train."""
    study.reach(0.2)
    machine, counts, bad = study.machines[1], 0, []
    store = f"--store {machine.point}/{study.name}"
    while any(each.code is None for each in study.commands):
        run = study.finished()[counts // 3]
        for look in ("status", "runs", f"evaluate {run} --on local --device cpu"):
            each = machine.start(f"{look} {store}")
            counts += 1
            bad += [look + each.reason] if each.wait() else []
    return [*study.codes(), f"{counts} commands looked at the store, {len(bad)} failed", *bad[:5]]


def killed(study: Study) -> list[str]:
    """Kill the first machine half way."""
    study.reach(0.5)
    study.machines[0].kill()
    begun, other = time.monotonic(), study.commands[1]
    code, passed = other.wait(), time.monotonic() - begun
    return [f"the other ended with code {code}, {passed:.0f} s after the kill{other.reason}"]


def frozen(study: Study) -> list[str]:
    """Stop the server for longer than a lease lives."""
    study.reach(0.3)
    signal_all(signal.SIGSTOP, study.system.servers)
    time.sleep(FROZEN)
    signal_all(signal.SIGCONT, study.system.servers)
    return study.codes()


def vanished(study: Study) -> list[str]:
    """Let the file system of the first machine vanish for 20 s."""
    study.reach(0.3)
    study.system.lose(study.machines[0])
    time.sleep(20)
    study.system.restore(study.machines[0])
    return study.codes()


CHECKS = {each.__name__: each for each in (once, killed, frozen, vanished)}


def train_on_disk(folder: Path, given: argparse.Namespace) -> None:
    """Train the study on a disk, undisturbed."""
    (folder / "counts").mkdir(parents=True)
    env = {**os.environ, COUNTS: str(folder / "counts"), "PYTHONPATH": str(HERE)}
    arguments = [*given.command.split(), "--store", str(folder / "store")]
    begun, trains = time.monotonic(), [sys.executable, "-m", "unweave", *arguments]
    subprocess.run(trains, env=env, check=True, capture_output=True)
    print(f"on a disk, undisturbed: {time.monotonic() - begun:.0f} s", flush=True)


def check_system(kind: str, folder: Path, given: argparse.Namespace) -> bool:
    """Run the checks on a network file system; return whether something went wrong."""
    shell("ip link set lo up")
    study = Study(given, results(folder / "plain/store"), steps_in(folder / "plain"))
    (folder / kind).mkdir()
    system = SYSTEMS[kind](folder / kind)
    print(kind, flush=True)
    for check in given.checks.split(","):
        study.begin(check, folder / kind / check, system)
        study.end(*CHECKS[check](study))
    return study.wrong


def main() -> None:
    """Run the checks on all file systems, each in namespaces of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("systems", nargs="*", default=list(SYSTEMS), help=", ".join(SYSTEMS))
    parser.add_argument("--checks", default=",".join(CHECKS))
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.command = f"{COMMAND} steps={given.steps} seed=0..{given.runs - 1}"
    if given.inside:
        sys.exit(check_system(given.systems[0], given.inside, given))
    wrong = False
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        train_on_disk(Path(name) / "plain", given)
        own = [sys.executable, *(each for each in sys.argv if each not in SYSTEMS)]
        for kind in given.systems:
            inside = [*own, "--inside", name, kind]
            wrong |= bool(subprocess.run([*ISOLATED.split(), *inside], check=False).returncode)
    sys.exit(wrong)


if __name__ == "__main__":
    main()
