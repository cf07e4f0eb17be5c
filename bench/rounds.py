# SPDX-License-Identifier: Apache-2.0
"""Measures raw limits, Ferry, OpenSHMEM and UCX in turn, round by round, and says which rounds may be compared."""
import os
import re
import socket
import statistics
import subprocess
import time

import lib

# ns: half a round trip of a cache line takes 30 to 70 ns in one mode of the host, 220 to 260 in the other
FAST_BELOW = 130
SLOW_BELOW = 400  # what needs longer has shared its cores with somebody
ENOUGH = 5  # rounds that may be compared

UCX = (  # key, test of ucx_perftest, further arguments, iterations
    (("signal_pp", 8), "ucp_put_lat", [], 200000),
    (("put_nbi", 8), "ucp_put_bw", [], 2000000),
    (("get", 8), "ucp_get", ["-O", "1"], 1000000),
    (("fetch_add", 8), "ucp_fadd", ["-O", "1"], 1000000),
)


class Round:
    """Figures: {system: {(measure, bytes): (median, best)}} in ns per operation; probes: ns of the raw ping-pong;
    seconds: how long each system took."""

    def __init__(self, number):
        self.number, self.figures, self.probes, self.seconds = number, {}, [], {}

    def mode(self):
        if max(self.probes) < FAST_BELOW:
            return "fast"
        if max(self.probes) >= SLOW_BELOW:
            return "busy"
        return "slow" if min(self.probes) >= FAST_BELOW else "changing"


def parse(text):
    figures = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(\w+) (\d+) ([\d.]+) ([\d.]+)", line)
        if match:
            figures[match[1], int(match[2])] = float(match[3]), float(match[4])
    return figures


def probe():
    """The best batch: another process can only make a batch slower."""
    out = lib.must([lib.BIN / "limits", "-t", "signal_pp", "-b", "7"], 60)
    return parse(out)["signal_pp", 8][1]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ucx_one(test, more, iterations, size=8, tls="posix,cma,self"):
    """ns per operation. Client and server are told to stay on one core each."""
    port = str(free_port())
    cores = sorted(os.sched_getaffinity(0))
    env = {"UCX_TLS": tls}
    server = subprocess.Popen(["ucx_perftest", "-c", str(cores[-1]), "-p", port], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env=os.environ | env)
    try:
        for _ in range(100):  # the server says nothing when it is ready
            out, err, status = lib.run(["ucx_perftest", "127.0.0.1", "-c", cores[0], "-p", port, "-t", test, "-s", size,
                                        "-n", iterations, *more], 60, **env)
            if status == 0 and "Final:" in out:
                break
            time.sleep(0.02)
        else:
            raise lib.Failed(f"ucx_perftest {test}: {err[-500:]}")
    finally:
        server.kill()
        server.wait()
    fields = re.search(r"Final:(.*)", out)[1].split()
    # a latency test prints half a round trip in microseconds; the others are told by their rate
    return float(fields[3]) * 1e3 if test.endswith("_lat") else 1e9 / float(fields[-1])


def measure_ucx(quick):
    figures = {}
    for key, test, more, iterations in UCX:
        value = ucx_one(test, more, iterations // (4 if quick else 1))
        figures[key] = value, value
    return figures


def options(quick):
    return ["-q", "-b", "7", "-m", "1"] if quick else ["-b", "15", "-m", "2"]


def measure_limits(quick):
    return parse(lib.must([lib.BIN / "limits", *options(quick)], 120))


def crowd(text):
    """A barrier of 16 PEs, under a name of its own."""
    return {("barrier16", 8): parse(text)["barrier", 8]}


CROWD = ["-t", "barrier", "-e", "40", "-b", "7"]


def measure_ferry(quick):
    figures = parse(lib.ferry(2, "ferry_ops", *options(quick)))
    return figures | crowd(lib.ferry(16, "ferry_ops", *CROWD))


def measure_shmem(quick):
    figures = parse(lib.shmem(2, *options(quick)))
    return figures | crowd(lib.shmem(16, *CROWD, heap="16M"))


SYSTEMS = (("limits", measure_limits), ("Ferry", measure_ferry), ("OpenSHMEM", measure_shmem), ("UCP", measure_ucx))


def measure_round(number, quick):
    one = Round(number)
    one.probes.append(probe())
    # the order turns, so that nobody always comes first
    for system, measure in SYSTEMS if number % 2 else reversed(SYSTEMS):
        at = time.monotonic()
        one.figures[system] = measure(quick)
        one.seconds[system] = time.monotonic() - at
        one.probes.append(probe())
    return one


def comparable(rounds, every):
    """The rounds that may be compared, all of one mode: the one that most of them have. And its name."""
    if every:
        return rounds, "any"
    modes = {mode: [r for r in rounds if r.mode() == mode] for mode in ("fast", "slow")}
    best = max(modes, key=lambda mode: len(modes[mode]))
    return modes[best], best


def measure(wanted, seconds, quick, every):
    """All rounds: at least `wanted`, and then until enough of them are of one mode or the time is over."""
    rounds, began, longest = [], time.monotonic(), 0
    while True:
        at = time.monotonic()
        one = measure_round(len(rounds) + 1, quick)
        longest = max(longest, time.monotonic() - at)
        rounds.append(one)
        parts = ", ".join(f"{system} {seconds:.0f}" for system, seconds in one.seconds.items())
        lib.say(f"round {one.number}: {time.monotonic() - at:.0f} s ({parts}), cache line "
                f"{min(one.probes):.0f} … {max(one.probes):.0f} ns, {one.mode()}")
        enough = len(comparable(rounds, every)[0]) >= ENOUGH
        if len(rounds) >= wanted and enough:
            return rounds
        if time.monotonic() - began + longest > seconds:
            return rounds
