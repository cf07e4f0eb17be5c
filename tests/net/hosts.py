# SPDX-License-Identifier: Apache-2.0
# Hosts that are namespaces of this machine: network, processes, IPC, host name, mounts and /dev/shm of their own, joined by a
# bridge. Nothing of it has a name outside: each lives as long as its first process, which ends with the pipe to this one.
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

SKIP = 77
# sysfs shows the network of who mounts it, and would hide the control groups
FIRST = """
mount --make-rprivate / && mount -t tmpfs tmpfs /dev/shm && mkdir /dev/shm/keep && mount --rbind /sys/fs/cgroup /dev/shm/keep &&
mount -t sysfs sysfs /sys && mount --rbind /dev/shm/keep /sys/fs/cgroup && umount -l /dev/shm/keep && rmdir /dev/shm/keep &&
hostname %s && ip link set dev lo up && echo ready && read _
"""


class Failed(Exception):
    pass


def skip(reason):
    print("SKIP: " + reason)
    sys.exit(SKIP)


def tool(*argv, check=True):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=30)
    if check and done.returncode != 0:
        raise Failed("%s: status %d: %s" % (" ".join(argv), done.returncode, done.stdout.strip()))
    return done


class Host:
    """One set of namespaces. Without `numbers` it shares those of processes, so that one can enter it without a fork."""

    def __init__(self, name, numbers=True):
        self.name, self.numbers = name, numbers
        self.holder = subprocess.Popen(
            ["unshare", "--net", "--mount", "--ipc", "--uts"] +
            (["--pid", "--fork", "--kill-child", "--mount-proc"] if numbers else []) + ["sh", "-c", FIRST % name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = self.holder.stdout.readline()
        if said.strip() != "ready":
            rest = self.holder.stdout.read()
            self.close()
            raise PermissionError((said + rest).strip() or "unshare ended")

    def enter(self):
        at = "/proc/%d/ns/" % self.holder.pid
        return ["nsenter", "--net=" + at + "net", "--mount=" + at + "mnt", "--ipc=" + at + "ipc", "--uts=" + at + "uts"] + \
            (["--pid=" + at + "pid_for_children"] if self.numbers else []) + ["--"]

    def open(self):
        """Descriptors of what a process can enter without a fork."""
        return [os.open("/proc/%d/ns/%s" % (self.holder.pid, kind), os.O_RDONLY) for kind in ("net", "ipc", "uts", "mnt")]

    def run(self, *argv, check=True):
        return tool(*self.enter(), *argv, check=check)

    def start(self, argv, env=None, **more):
        return subprocess.Popen(self.enter() + list(argv), env=env, **more)

    def close(self):
        self.holder.stdin.close()
        try:
            self.holder.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.holder.kill()
            self.holder.wait()
        self.holder.stdout.close()


class Net:
    """n hosts with eth0 at 10.79.0.1, .2, …, and a hub with the bridge; with `networks` 2 also eth1 at 10.79.1.1 …, with a
    bridge of its own. With `relay`, host i's cable goes through it: {i: (delay in ms, loss in percent)}. numbers: of Host."""

    def __init__(self, n, relay=None, program=None, numbers=True, networks=1):
        self.hosts, self.relays, self.log = [], [], sys.stdout
        try:
            self.hub = Host("hub")
        except PermissionError as why:
            skip("no namespaces can be made here: %s" % why)
        except FileNotFoundError as why:
            skip("a tool is missing: %s" % why)
        try:
            for i in range(n):
                self.hosts.append(Host("host%d" % i, numbers))
            for k in range(networks):
                self.hub.run("ip", "link", "add", "br%d" % k, "type", "bridge")
                self.hub.run("ip", "link", "set", "dev", "br%d" % k, "up")
                for i in range(n):
                    self.cable(i, k)
            for i, (delay, loss) in (relay or {}).items():
                self.put_relay(i, delay, loss, program)
        except BaseException:
            self.close()
            raise

    def address(self, i, k=0):
        return "10.79.%d.%d" % (k, i + 1)

    def port(self, i, k=0):
        return "port%d" % i if k == 0 else "port%d.%d" % (i, k)

    def cable(self, i, k):
        host = self.hosts[i]
        # from outside, where the number of the host's process means something
        tool("nsenter", "--net=/proc/%d/ns/net" % self.hub.holder.pid, "ip", "link", "add", self.port(i, k), "type", "veth",
             "peer", "name", "eth%d" % k, "netns", str(host.holder.pid))
        self.hub.run("ip", "link", "set", "dev", self.port(i, k), "master", "br%d" % k, "up")
        host.run("ip", "addr", "add", self.address(i, k) + "/24", "dev", "eth%d" % k)
        host.run("ip", "link", "set", "dev", "eth%d" % k, "up")

    def put_relay(self, i, delay, loss, program):
        self.hub.run("ip", "link", "set", "dev", self.port(i), "nomaster")
        self.hub.run("ip", "link", "add", "in%d" % i, "type", "veth", "peer", "name", "out%d" % i)
        self.hub.run("ip", "link", "set", "dev", "in%d" % i, "up")
        self.hub.run("ip", "link", "set", "dev", "out%d" % i, "master", "br0", "up")
        for j, host in enumerate(self.hosts):
            host.run(program, "plain", "eth0")
        relay = self.hub.start([program, self.port(i), "in%d" % i, str(delay), str(loss)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
        self.relays.append(relay)
        if relay.stdout.readline().strip() != "ready":
            raise Failed("the relay does not start")

    def lose(self, i, percent):
        """Host i loses that share of what arrives; 100 cuts it off, silently, in both directions."""
        rules = "add table ip loss; flush table ip loss; add chain ip loss in { type filter hook input priority 0; };" \
                "add chain ip loss out { type filter hook output priority 0; };"
        if percent >= 100:
            rules += 'add rule ip loss in iifname "eth0" counter drop; add rule ip loss out oifname "eth0" counter drop'
        else:
            rules += 'add rule ip loss in iifname "eth0" numgen random mod 1000 < %d counter drop' % round(percent * 10)
        self.hosts[i].run("nft", rules)

    def lost(self, i):
        """Packets that host i lost."""
        text = self.hosts[i].run("nft", "list", "table", "ip", "loss").stdout
        return sum(int(n) for n in re.findall(r"counter packets (\d+)", text))

    def unplug(self, i):
        self.hub.run("ip", "link", "set", "dev", self.port(i), "down")

    def sent(self, i, interface="eth0"):
        """Bytes that host i has sent."""
        return int(self.hosts[i].run("cat", "/sys/class/net/%s/statistics/tx_bytes" % interface).stdout)

    def close(self):
        for relay in self.relays:
            relay.stdin.close()
            relay.wait(timeout=10)
            relay.stdout.close()
        for host in self.hosts:
            host.close()
        self.hub.close()

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.close()


class Meeting:
    """Serves the id of jobs on the first host's address."""

    def __init__(self, net, program, host=0, interface="eth0"):
        env = dict(os.environ, FERRY_INTERFACE=interface)
        env.pop("FERRY_TRANSPORT", None)
        self.process = net.hosts[host].start([program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.id = self.process.stdout.readline().strip()
        if not self.id:
            raise Failed("no id was made")

    def lost(self, rank):
        self.process.stdin.write("%d\n" % rank)
        self.process.stdin.flush()

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=20)
        self.process.stdout.close()


class Pe:
    """One process of a job: where, what it printed, how it ended."""

    def __init__(self, rank, host, process, out):
        self.rank, self.host, self.process, self.out = rank, host, process, out
        self.status, self.seconds, self.text = None, None, ""

    def said(self):
        self.out.flush()
        with open(self.out.name, errors="replace") as file:
            return file.read()


class Job:
    """n PEs of `argv`, PE i on places[i], or round the hosts in blocks."""

    def __init__(self, net, meeting, argv, n, places=None, env=None, stdin=subprocess.DEVNULL):
        self.meeting, self.pes, self.begin, self.argv = meeting, [], time.monotonic(), argv
        for rank in range(n):
            place = places[rank] if places else rank * len(net.hosts) // n
            out = tempfile.NamedTemporaryFile("w", prefix="ferry-net-")
            e = dict(os.environ, FERRY_RANK=str(rank), FERRY_SIZE=str(n), FERRY_ID=meeting.id)
            e.update(env or {})
            more = argv(rank) if callable(argv) else argv
            process = net.hosts[place].start(more, env=e, stdin=stdin, stdout=out, stderr=out)
            self.pes.append(Pe(rank, place, process, out))

    def release(self):
        """Ends the input of all."""
        for pe in self.pes:
            pe.process.stdin.close()

    def wait(self, seconds):
        """Until all have ended; who has not in time is killed, and says so by its status of None."""
        end = self.begin + seconds
        for pe in self.pes:
            try:
                pe.status = pe.process.wait(timeout=max(0.01, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                pe.status = None
            if pe.status not in (0, None) and self.meeting.process.poll() is None:
                self.meeting.lost(pe.rank)
        for pe in self.pes:
            if pe.status is None:
                pe.process.kill()
                pe.process.wait()
            pe.text = pe.said()
            pe.out.close()
        return self

    def kill(self, rank):
        """nsenter's child is the PE; it has no name here, so its whole family goes."""
        pid = self.pes[rank].process.pid
        for child in children(pid):
            os.kill(child, signal.SIGKILL)

    def texts(self):
        return "\n".join("--- pe %d on host %d: status %s\n%s" % (p.rank, p.host, p.status, p.text) for p in self.pes)

    def good(self, seconds=120):
        self.wait(seconds)
        if any(pe.status != 0 for pe in self.pes):
            raise Failed("a PE did not end well\n" + self.texts())
        print("%s on %d PEs: %.1f s" % (os.path.basename(self.argv[0]), len(self.pes), time.monotonic() - self.begin), flush=True)
        return self


def children(pid):
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % entry) as file:
                stat = file.read()
        except OSError:
            continue
        if int(stat.rsplit(")", 1)[1].split()[1]) == pid:
            found.append(int(entry))
    return found


def until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Failed("not within %g s: %s" % (seconds, what() if callable(what) else what))
        time.sleep(0.01)
