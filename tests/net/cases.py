#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Jobs across hosts: each case makes its hosts (hosts.py), starts jobs on them, and judges. usage: cases.py --build DIR CASE
import argparse
import os
import re
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hosts
from hosts import Failed, Job, Meeting, Net

build = ""
names = {"hello": "examples/hello", "moe": "examples/moe_dispatch", "run": "tools/ferry-run",
         "info": "tools/ferry-info", "conformance": "tests/conformance/conformance"}


def program(name):
    path = os.path.join(build, names.get(name, "tests/net/net_" + name))
    if not os.access(path, os.X_OK):
        raise Failed("there is no " + path)
    return path


def expect(good, what, job=None):
    if not good:
        raise Failed(what + ("\n" + job.texts() if job else ""))


def says(job, rank, *words):
    for word in words:
        expect(word in job.pes[rank].text, "pe %d does not say '%s'" % (rank, word), job)


# ---------------------------------------------------------------- the bootstrap, without a transport that crosses

def loopback_does_not_cross(net):
    meeting = Meeting(net, program("meeting"))
    job = Job(net, meeting, [program("hello")], 3, env={"FERRY_TRANSPORT": "loopback"}).wait(30)
    for pe in job.pes:
        expect(pe.status == 1, "a job of three hosts ran over loopback", job)
        says(job, pe.rank, "cannot start", "reaches pe", "is in another network namespace")
    meeting.close()


def met_elsewhere(net):
    """Both on one host; the id is made on another one. They listen where they reach it, and loopback carries them."""
    meeting = Meeting(net, program("meeting"))
    for _ in range(2):
        Job(net, meeting, [program("hello")], 2, places=[1, 1], env={"FERRY_TRANSPORT": "loopback"}).good(30)
    job = Job(net, meeting, [program("paths"), "near", "1"], 2, places=[2, 2], env={"FERRY_TRANSPORT": "loopback"}).good(30)
    says(job, 0, "path 0 1 loopback loopback loopback mapped near", "shared team 2")
    meeting.close()


def id_of_one_host(net):
    meeting = Meeting(net, program("meeting"), interface="lo")
    job = Job(net, meeting, [program("hello")], 1, places=[1], env={"FERRY_SIZE": "2"}).wait(30)
    says(job, 0, "nobody serves this id on this host", "FERRY_INTERFACE")
    meeting.close()


def no_way_there(net):
    meeting = Meeting(net, program("meeting"))
    net.hosts[1].run("ip", "addr", "flush", "dev", "eth0")
    job = Job(net, meeting, [program("hello")], 1, places=[1], env={"FERRY_SIZE": "2"}).wait(30)
    says(job, 0, "no way there from this host", "FERRY_INTERFACE")
    net.hosts[1].run("ip", "addr", "add", net.address(1) + "/24", "dev", "eth0")
    meeting.close()


# By several processes, since one may have too few descriptors. They end with this one's input.
HOLD = """
import os, resource, socket, sys
first, last, share = int(sys.argv[1]), int(sys.argv[2]), 4000
resource.setrlimit(resource.RLIMIT_NOFILE, (share + 96, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
for begin in range(first, last + 1, share):
    told, tell = os.pipe()
    if os.fork() == 0:
        held = []
        for port in range(begin, min(begin + share, last + 1)):
            s = socket.socket()
            s.bind(("127.0.0.1", port))
            held.append(s)
        os.write(tell, b".")
        sys.stdin.read()
        os._exit(0)
    os.close(tell)
    if os.read(told, 1) != b".":
        sys.exit("a port was taken already")
    os.close(told)
try:
    socket.socket().bind(("127.0.0.1", 0))
    print("free")
except OSError as why:
    print(why.errno)
sys.stdout.flush()
sys.stdin.read()
"""


def with_ports_held(host, first, last):
    """What a job of two PEs says while the kernel has no port to give out, and those are taken."""
    taken = host.start([sys.executable, "-c", HOLD, str(first), str(last)], stdin=hosts.subprocess.PIPE,
                       stdout=hosts.subprocess.PIPE, text=True)
    said = taken.stdout.readline().strip()
    job = host.start([program("run"), "-n", "2", program("hello")], env=dict(os.environ, FERRY_TRANSPORT="loopback"),
                     stdin=hosts.subprocess.DEVNULL, stdout=hosts.subprocess.PIPE, stderr=hosts.subprocess.STDOUT, text=True)
    text = job.communicate(timeout=60)[0]
    taken.communicate(timeout=20)
    expect(said == "98", "the ports were not used up: " + said)
    return job.returncode, text


def ports_used_up(net):
    """Many short jobs leave the kernel no port to give out: any other will do."""
    host = net.hosts[2]  # where nothing was done on lo yet
    status, text = with_ports_held(host, 1024, 65535)
    expect(status != 0 and "no port is free" in text, "there was no port left: " + text)
    host.run("sh", "-c", "echo 40000 40003 >/proc/sys/net/ipv4/ip_local_port_range")
    status, text = with_ports_held(host, 40000, 40003)
    expect(status == 0, "a job cannot start: " + text)
    host.run("sh", "-c", "echo 32768 60999 >/proc/sys/net/ipv4/ip_local_port_range")


def boot():
    with Net(3) as net:
        for step in (loopback_does_not_cross, met_elsewhere, id_of_one_host, no_way_there, ports_used_up):
            step(net)
    rules_in_their_places()


def conformance(net, transport, pes, env, *more):
    """The rules whose PEs may be processes; PE after PE on another host."""
    places = [host.open() for host in net.hosts]
    e = dict(os.environ, TEST_HOSTS=",".join(".".join(map(str, fds)) for fds in places), FERRY_INTERFACE="eth0",
             FERRY_HEAP_CHUNK="4M", TEST_SCALE="1")
    e.update(env)
    run = hosts.subprocess.Popen(net.hosts[0].enter() + [program("conformance"), "--transport", transport, "--processes", "-n", str(pes)] +
                                 list(more), env=e, stdin=hosts.subprocess.DEVNULL, stdout=hosts.subprocess.PIPE,
                                 stderr=hosts.subprocess.STDOUT, text=True, pass_fds=[fd for fds in places for fd in fds])
    try:
        text = run.communicate(timeout=360)[0]
    finally:
        run.kill()
        run.wait()
        for fd in (fd for fds in places for fd in fds):
            os.close(fd)
    return run.returncode, text


def rules_in_their_places():
    """That PEs of the rules get to their hosts: on one, loopback will do; on two, it will not."""
    with Net(1, numbers=False) as net:
        status, text = conformance(net, "loopback", 2, {}, "--rule", "R7.1")
    expect(status == 0, "a rule fails: " + text)
    with Net(2, numbers=False) as net:
        status, text = conformance(net, "loopback", 2, {}, "--rule", "R7.1")
    expect(status != 0 and "is in another network namespace" in text, "PEs did not go to two hosts: " + text)


# ---------------------------------------------------------------- transports over TCP between hosts

OVER = {
    "libfabric": {"FERRY_TRANSPORT": "libfabric", "FERRY_LIBFABRIC_PROVIDER": "tcp;ofi_rxm"},
    "ucx": {"FERRY_TRANSPORT": "ucx", "UCX_TLS": "tcp,self"},
}
ROUNDS = {"libfabric": "12", "ucx": "60"}  # an atomic over rxm takes its time where PEs share cores
MOE = ["--hidden", "256", "--ring", "32", "--tokens", "512", "--channels", "4"]
README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../README.md")
CALLS = {"killed": ["put", "get", "fetch", "wait", "barrier", "alloc"], "silent": ["put", "get", "fetch", "signal", "wait", "reduce"],
         "unplugged": ["put", "barrier"]}


def moe():
    return [program("moe"), "--text", README] + MOE


def checksum(text):
    found = re.search(r"checksum dispatch (\w+) combine (\w+)", text)
    return found.groups() if found else None


def moe_alone():
    done = hosts.tool(program("run"), "-n", "1", *moe())
    return checksum(done.stdout)


def moe_verified(job):
    says(job, 0, "verified 512 tokens of 512, every byte: 0 mismatched")
    expect(checksum(job.pes[0].text) == moe_alone() is not None, "other checksums than on one host", job)


def jobs(over):
    """Three hosts, two PEs each: what each pair sends crosses the cable, or comes back by the same way on one host."""
    env = OVER[over]
    with Net(3) as net:
        meeting = Meeting(net, program("meeting"))
        Job(net, meeting, [program("hello")], 3, env=env).good()
        Job(net, meeting, [program("words"), "10"], 6, env=env).good()
        job = Job(net, meeting, [program("paths"), "far", "2"], 3, env=env).good()
        for rank in range(3):
            says(job, rank, *["path %d %d %s " % (rank, peer, over) for peer in range(3)], "shared team 1")
        moe_verified(Job(net, meeting, moe(), 3, env=env).good())
        if over == "ucx":
            by_itself(net, meeting)
        meeting.close()


def by_itself(net, meeting):
    """With nothing said: memory within a host, the network between, as with a list."""
    job = Job(net, meeting, [program("paths"), "far", "1"], 6).good()
    says(job, 0, "path 0 1 loopback loopback loopback mapped near")
    expect(re.search("path 0 2 (ucx|libfabric) .* apart far", job.pes[0].text) is not None, "another way was taken", job)


# What the network has a part in: completion, order, signals, atomics, a target that computes, floods; by number of hosts. All rules
# over the same transports are in scripts/matrix, on one host.
RULES = {
    2: "R1.1,R4.1,R8.1,R10.1,R11.1,R15.1,R17.2,R19.1,R49.1,R50.1,R51.3",
    3: "R2.1,R3.1,R7.1,R10.3,R14.1,R17.3,R21.2,R22.2,R22.3,R24.1,R35.1,R51.1,R51.2",
}


def rules(over, n, pes):
    with Net(n, numbers=False) as net:
        status, text = conformance(net, over, pes, OVER[over], "--expected", expected(over), "--rule", RULES[n])
    passed = len(re.findall(r"^\[       OK \] R", text, re.M))
    expect(status == 0, "rules fail over %s on %d hosts: %s" % (over, n, "\n".join(
        line for line in text.splitlines() if re.search("FAILED|ERROR|failed|gave", line))))
    expect(passed == RULES[n].count(",") + 1, "only %d rules were played: %s" % (passed, text))
    print("%d rules over %s by %d PEs on %d hosts" % (passed, over, pes, n))


def expected(over):
    name = {"libfabric": "libfabric-tcp-rxm", "ucx": "ucx-tcp"}[over]
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "../expected", name + ".json")


def rough(over):
    """One host loses packets, another one is far away: slower, and all is right."""
    env = dict(OVER[over], FERRY_PEER_TIMEOUT="30")
    with Net(3, relay={2: (1.5, 0)}, program=program("relay")) as net:
        net.lose(1, 2)
        meeting = Meeting(net, program("meeting"))
        Job(net, meeting, [program("words"), "3"], 3, env=env).good()
        moe_verified(Job(net, meeting, moe(), 3, env=env).good())
        expect(net.lost(1) > 0, "no packet was lost")
        print("%d packets were lost" % net.lost(1))
        meeting.close()


def ended(job, victim, cut_too):
    """Each of the others heard of the PE that went, in its call."""
    for pe in job.pes:
        if pe.rank == victim:
            continue
        expect(pe.status == 0, "a call did not end with FERRY_ERR_PEER", job)
        expect("peer %d," % victim in pe.text, "pe %d names another peer" % pe.rank, job)
    if cut_too:
        expect(job.pes[victim].status == 0, "the host that was cut off heard nothing", job)


def cut(over):
    """The last PE, alone on the third host, goes: killed, behind a cable that carries nothing any more, or unplugged. The
    others are each in another call."""
    with Net(3) as net:
        for how, calls in CALLS.items():
            cut_once(net, over, how, calls)


def cut_once(net, over, how, calls):
    env = dict(OVER[over], FERRY_PEER_TIMEOUT="2")
    n = len(calls) + 1
    meeting = Meeting(net, program("meeting"))
    job = Job(net, meeting, lambda rank: [program("cut"), (calls + ["put"])[rank]], n, [i % 2 for i in range(n - 1)] + [2], env,
              stdin=hosts.subprocess.PIPE)
    told = [pe for pe in job.pes if how != "killed" or pe.rank != n - 1]
    try:
        until(job.pes, lambda: all("running" in pe.said() for pe in job.pes), 60, "the job does not run")
        event = time.monotonic()
        {"killed": lambda: job.kill(n - 1), "silent": lambda: net.lose(2, 100), "unplugged": lambda: net.unplug(2)}[how]()
        until(told, lambda: all("cut: pe" in pe.said() for pe in told), 30, "not all calls end")
        took = time.monotonic() - event
    finally:
        job.release()
        job.wait(time.monotonic() - job.begin + 20)
    print("%s: all calls ended after %.2f s, all PEs after %.2f s" % (how, took, time.monotonic() - event), flush=True)
    ended(job, n - 1, how != "killed")
    if how == "silent":
        net.hosts[2].run("nft", "flush", "ruleset")
    meeting.close()


def until(pes, condition, seconds, what):
    """Or until one of them has ended."""
    hosts.until(lambda: condition() or any(pe.process.poll() is not None for pe in pes), seconds,
                lambda: what + "\n" + "\n".join("--- pe %d\n%s" % (pe.rank, pe.said()) for pe in pes))


# ---------------------------------------------------------------- shared memory within a host, the network between

def mixed(over):
    env = dict(OVER[over], FERRY_TRANSPORT="loopback," + over)
    places = [0, 0, 1, 1, 2, 2]
    big, small = 32 << 20, 2 << 20
    with Net(3) as net:
        meeting = Meeting(net, program("meeting"))
        for which, pieces in (("near", 40), ("far", 4)):
            before = [net.sent(i) for i in range(3)]
            job = Job(net, meeting, [program("paths"), which, str(pieces)], 6, places, env).good()
            crossed = [net.sent(i) - b for i, b in enumerate(before)]
            # near: 40 MiB to the neighbour, two PEs per host; far: 4 MiB to each of four
            if which == "near":
                expect(max(crossed) < small, "%s bytes crossed the cables, though all puts stay on a host" % crossed, job)
            else:
                expect(min(crossed) >= big, "only %s bytes crossed the cables" % crossed, job)
            ways(job, places, over)
        Job(net, meeting, [program("words"), ROUNDS[over]], 6, places, env).good()
        # one host has one PE, so that its owner is reached by the network alone, and by itself
        Job(net, meeting, [program("words"), ROUNDS[over]], 5, [0, 0, 1, 1, 2], env).good()
        moe_verified(Job(net, meeting, moe(), 6, places, env).good())
        meeting.close()


def ways(job, places, over):
    for a, host in enumerate(places):
        for b, other in enumerate(places):
            near = host == other
            found = re.search(r"^path %d %d (\S+) (\S+) (\S+) (\S+) (\S+)$" % (a, b), job.pes[a].text, re.M)
            expect(found is not None, "no path from pe %d to pe %d is told" % (a, b), job)
            expect(found[1] == ("loopback" if near else over), "pe %d reaches pe %d by %s" % (a, b, found[1]), job)
            expect((found[4], found[5]) == (("mapped", "near") if near else ("apart", "far")),
                   "pe %d finds pe %d %s and %s" % (a, b, found[4], found[5]), job)
        says(job, a, "shared team %d" % places.count(host))
    # an owner's atomics have one domain, whoever asks
    print("atomics from pe 0: " + ", ".join("%s to pe %s" % (w, p) for p, w in
                                             re.findall(r"^path 0 (\d) \S+ (\S+)", job.pes[0].text, re.M)))


# ---------------------------------------------------------------- which interface

def device(over, name):
    return dict(OVER[over], **{{"libfabric": "FERRY_LIBFABRIC_INTERFACE", "ucx": "UCX_NET_DEVICES"}[over]: name})


def interfaces(over):
    with Net(2, networks=2) as net:
        meeting = Meeting(net, program("meeting"))
        for k in range(2):
            before = [net.sent(0, "eth%d" % i) for i in range(2)]
            job = Job(net, meeting, [program("paths"), "far", "16"], 2, env=device(over, "eth%d" % k)).good()
            crossed = [net.sent(0, "eth%d" % i) - b for i, b in enumerate(before)]
            expect(crossed[k] >= 16 << 20 and crossed[1 - k] < 2 << 20,
                   "asked for eth%d, and eth0 and eth1 carried %s bytes" % (k, crossed), job)
        job = Job(net, meeting, [program("hello")], 2, env=device(over, "nosuch0")).wait(40)
        for pe in job.pes:
            expect(pe.status == 1, "a job ran over an interface that does not exist", job)
            says(job, pe.rank, "nosuch0")
        print(job.pes[0].text.strip())
        meeting.close()


cases = {"boot": boot}
for name in OVER:
    cases.update({"jobs-" + name: lambda over=name: jobs(over), "rough-" + name: lambda over=name: rough(over),
                  "rules-2-" + name: lambda over=name: rules(over, 2, 2), "rules-3-" + name: lambda over=name: rules(over, 3, 3),
                  "cut-" + name: lambda over=name: cut(over), "mixed-" + name: lambda over=name: mixed(over),
                  "interfaces-" + name: lambda over=name: interfaces(over)})


def main():
    global build
    parser = argparse.ArgumentParser(description="Jobs across hosts, which are namespaces of this machine.")
    parser.add_argument("--build", default="build")
    parser.add_argument("case", choices=sorted(cases))
    given = parser.parse_args()
    build = os.path.abspath(given.build)
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    for name in [n for n in os.environ if n.startswith(("FERRY_", "UCX_"))]:
        del os.environ[name]
    if os.geteuid() != 0:
        hosts.skip("only root can make namespaces and their network")
    begin = time.monotonic()
    try:
        cases[given.case]()
    except Failed as why:
        print("FAILED: %s" % why)
        return 1
    print("%s: good, %.1f s" % (given.case, time.monotonic() - begin))
    return 0


if __name__ == "__main__":
    sys.exit(main())
