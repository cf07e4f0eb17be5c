# SPDX-License-Identifier: Apache-2.0
"""How a job grows: the time to begin and end one of 64 PEs, and the memory a PE keeps for peers it never spoke to."""
import statistics
import time

import lib

PES = 64
SECONDS, BYTES = 2.0, 64


def job(pes):
    """Seconds from the first ferry_init to the last return of ferry_finalize, seconds of the whole command, and KiB
    of each PE, PE 0 first."""
    started = time.monotonic()
    out = lib.ferry(pes, "scale_pe", seconds=120)
    wall = time.monotonic() - started
    lines = sorted([int(f) for f in line.split()[1:]] for line in out.splitlines() if line.startswith("pe "))
    if [line[0] for line in lines] != list(range(pes)):
        raise lib.Failed(f"a job of {pes} PEs: {len(lines)} of them reported")
    return (max(l[3] for l in lines) - min(l[1] for l in lines)) / 1e6, wall, [l[4] for l in lines]


def slope(points):
    """Least squares."""
    x, y = zip(*points)
    return statistics.linear_regression(x, y).slope if hasattr(statistics, "linear_regression") else (
        (y[-1] - y[0]) / (x[-1] - x[0]))


def measure(quick):
    sizes = (16, 64, 128) if quick else (16, 64, 128, 256)
    times, walls, first, others = [], [], [], []
    for pes in sizes:
        for _ in range(3 if pes == PES or not quick else 1):
            spent, wall, kib = job(pes)
            first.append((pes, kib[0] * 1024))
            others.append((pes, statistics.median(kib[1:]) * 1024))
            if pes == PES:
                times.append(spent)
                walls.append(wall)
    return {"seconds": statistics.median(times), "wall": statistics.median(walls), "sizes": sizes,
            "first": slope(first), "others": slope(others)}


def rows(result):
    """Of a table: measure, Ferry, to reach, met."""
    def met(good):
        return "yes" if good else "**no**"
    yield (f"init + finalize of {PES} PEs, first call to last return", f"{result['seconds']:.2f} s",
           f"≤ {SECONDS:.0f} s", met(result["seconds"] <= SECONDS))
    yield (f"the same with starting {PES} processes, `ferry-run` as a whole", f"{result['wall']:.2f} s", "", "")
    span = f"{result['sizes'][0]} … {result['sizes'][-1]} PEs"
    yield (f"memory per peer never contacted, PE 0, slope over {span}", f"{result['first']:.0f} B",
           f"≤ {BYTES} B", met(result["first"] <= BYTES))
    yield (f"the same, median of the other PEs", f"{result['others']:.0f} B", "", "")


def table(result):
    return lib.markdown(["jobs that grow", "Ferry", "to reach", "met"], list(rows(result)), "lrrl")
