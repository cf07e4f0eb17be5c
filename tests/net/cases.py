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
        text = run.communicate(timeout=110)[0]
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


cases = {"boot": boot}


def main():
    global build
    parser = argparse.ArgumentParser(description="Jobs across hosts, which are namespaces of this machine.")
    parser.add_argument("--build", default="build")
    parser.add_argument("case", choices=sorted(cases))
    given = parser.parse_args()
    build = os.path.abspath(given.build)
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    for name in [n for n in os.environ if n.startswith("FERRY_")]:
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
