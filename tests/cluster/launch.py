# SPDX-License-Identifier: Apache-2.0
# Launchers: each starts a program as n ranks, with an end; and a Slurm of this one machine, stopped exactly as it was started.
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

FOREIGN = ("FERRY_", "OMPI_", "PMIX_", "PMI_", "SLURM_", "PRTE_", "UCX_")


class Failed(Exception):
    pass


def clean(env=None):
    """The environment, without what launchers and earlier settings have left there."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    own.update(PATH="/usr/sbin:" + own.get("PATH", "/usr/bin:/bin"), UCX_WARN_UNUSED_ENV_VARS="n")
    own.update(env or {})
    return own


class Done:
    def __init__(self, argv, text, status, seconds):
        self.argv, self.text, self.status, self.seconds = argv, text, status, seconds

    def __str__(self):
        return "%s\nended with %s after %.1f s and said:\n%s" % (" ".join(self.argv), self.status, self.seconds, self.text)


class Running:
    """A launcher under way, in a process group of its own. Output goes to a file: who was killed may have left children that hold
    a pipe."""
    active = set()

    def __init__(self, argv, env=None):
        self.argv, self.begin = argv, time.monotonic()
        self.out = tempfile.TemporaryFile("w+b")
        self.process = subprocess.Popen(argv, env=clean(env), stdin=subprocess.DEVNULL, stdout=self.out, stderr=subprocess.STDOUT,
                                        start_new_session=True)
        Running.active.add(self)

    def text(self):
        self.out.seek(0)
        return self.out.read().decode("utf-8", "replace")

    def end(self, how=signal.SIGKILL):
        try:
            os.killpg(self.process.pid, how)
        except ProcessLookupError:
            pass

    def wait(self, seconds):
        status = None
        try:
            status = self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.end()
            self.process.wait()
        Running.active.discard(self)
        done = Done(self.argv, self.text(), "a timeout" if status is None else status, time.monotonic() - self.begin)
        if status is None:
            raise Failed("no end: %s" % done)
        return done


def run(argv, env=None, seconds=120):
    return Running(argv, env).wait(seconds)


# ---------------------------------------------------------------- what the launchers are called

def mpirun(n, argv, *options):
    """Open MPI's. It exports its environment to ranks of this host."""
    return ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--quiet", *options, "-n", str(n), *argv]


def mpiexec(n, argv, *options):
    """MPICH's."""
    return ["mpiexec.mpich", *options, "-n", str(n), *argv]


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as stat:
            return stat.read().rsplit(") ", 1)[1][0] != "Z"
    except OSError:
        return False


def until(what, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.05)
    return False


# ---------------------------------------------------------------- Slurm

CONF = """ClusterName=ferry
SlurmctldHost=%(host)s(%(at)s)
SlurmUser=%(user)s
SlurmdUser=%(user)s
AuthType=auth/munge
AuthInfo=socket=%(folder)s/munge/socket
CredType=cred/munge
SlurmctldPort=%(port)d
%(ports)s
StateSaveLocation=%(folder)s/state
SlurmdSpoolDir=%(folder)s/spool/%%n
SlurmctldPidFile=%(folder)s/slurmctld.pid
SlurmdPidFile=%(folder)s/slurmd.%%n.pid
SlurmctldLogFile=%(folder)s/log/slurmctld
SlurmdLogFile=%(folder)s/log/slurmd.%%n
TmpFS=%(folder)s/tmp/%%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=5
InactiveLimit=0
WaitTime=0
%(nodes)s
PartitionName=ferry Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


def free_ports(n):
    """Below those that the kernel gives out: nobody gets one by chance before it is used."""
    ports = []
    while len(ports) < n:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports += [port] if port not in ports else []
    return ports


class Slurm:
    """munged, slurmctld and slurmd of this user, in a folder of their own, on loopback. hosts: per node (name, address, how to run
    something there); the first entry is the controller's."""

    def __init__(self, folder, hosts=None):
        self.folder, self.daemons, self.hosts, self.where = folder, [], hosts, ()
        self.user = pwd.getpwuid(os.getuid()).pw_name
        for tries in (2, 1, 0):
            try:
                self.open()
                return
            except Failed:  # a port was taken after all
                if not tries:
                    raise

    def open(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("munge", "state", "log", "spool", "tmp"):
            os.makedirs(self.path(name))
        os.chmod(self.folder, 0o755)
        try:
            self.begin()
        except BaseException:
            self.close()
            raise

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def start(self, name, argv, where=()):
        with open(self.path("log", name + ".out"), "wb") as out:
            self.daemons.append((name, subprocess.Popen([*where, *argv], env=clean({"SLURM_CONF": self.path("slurm.conf")}), stdin=subprocess.DEVNULL, stdout=out,
                                                        stderr=subprocess.STDOUT, start_new_session=True)))

    def ended(self):
        return any(daemon.poll() is not None for _, daemon in self.daemons)

    def munge(self):
        with open(self.path("munge", "key"), "wb") as key:
            os.fchmod(key.fileno(), 0o600)
            key.write(os.urandom(1024))
        os.chmod(self.path("munge"), 0o755)
        files = ["--%s=%s" % (option, self.path("munge", name)) for option, name in
                 (("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"))]
        self.start("munged", ["munged", "--foreground", *files])
        if not until(lambda: os.path.exists(self.path("munge", "socket")) or self.ended()) or self.ended():
            raise Failed("munged does not start:\n" + self.logs())

    def begin(self):
        self.munge()
        port, node_port = free_ports(2)
        name = socket.gethostname().split(".")[0]
        hosts = self.hosts or [(name, "127.0.0.1", ()), (name, "127.0.0.1", ())]
        ports = "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny" if not self.hosts else ""
        nodes = "\n".join("NodeName=%s NodeAddr=%s Port=%d CPUs=16 State=UNKNOWN" % (host, at, node_port) for host, at, _ in hosts[1:])
        with open(self.path("slurm.conf"), "w") as conf:
            conf.write(CONF % {"folder": self.folder, "host": hosts[0][0], "at": hosts[0][1], "port": port, "ports": ports, "nodes": nodes,
                               "user": self.user})
        self.where = hosts[0][2]
        self.start("slurmctld", ["slurmctld", "-D", "-f", self.path("slurm.conf")], hosts[0][2])
        for host, _, where in hosts[1:]:
            for kind in ("spool", "tmp"):
                os.makedirs(self.path(kind, host), exist_ok=True)
            self.start("slurmd." + host, ["slurmd", "-D", "-N", host, "-f", self.path("slurm.conf")], where)
        def up():
            return self.say("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == str(len(hosts) - 1)
        if not until(lambda: up() or self.ended()) or self.ended():
            raise Failed("Slurm does not come up: %s\n%s" % (self.say("sinfo"), self.logs()))

    def env(self):
        return {"SLURM_CONF": self.path("slurm.conf")}

    def say(self, *argv):
        try:
            return subprocess.run([*self.where, *argv], env=clean(self.env()), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=20, check=False).stdout
        except subprocess.TimeoutExpired:
            return "no answer"

    def logs(self):
        text = ""
        for name in sorted(os.listdir(self.path("log"))):
            with open(self.path("log", name), errors="replace") as log:
                text += "--- %s\n%s" % (name, log.read()[-1500:])
        return text

    def srun(self, n, argv, *options):
        return [*self.where, "srun", "--quiet", "--overcommit", *options, "-n", str(n), *argv]

    def idle(self):
        """What a job that was killed has left is waited for."""
        if self.say("squeue", "-h").strip():
            self.say("scancel", "-u", self.user)
        return until(lambda: not self.say("squeue", "-h").strip())

    def close(self):
        if len(self.daemons) > 1:
            self.idle()
        for _, daemon in reversed(self.daemons):
            if daemon.poll() is None:
                daemon.terminate()
        for name, daemon in reversed(self.daemons):
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.daemons = []

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.close()


def missing(*programs):
    path = clean()["PATH"]
    return [p for p in programs if not shutil.which(p, path=path)]
