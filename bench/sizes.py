# SPDX-License-Identifier: Apache-2.0
"""How a job grows: the time to begin and end one of 64 PEs, and the memory a PE keeps for peers it never spoke to."""
import statistics
import time

import lib

PES = 64
SECONDS, BYTES = 2.0, 64
PROCESSES = 4
MOE = "--hidden 16 --ring 4 --chunk 2 --experts 1024 --max-dest 32 --tokens 4096".split()


def numbers(out, word):
    """The lines of scale_pe that begin with a word, as numbers, in order of the PEs."""
    return sorted([int(f) for f in line.split()[1:]] for line in out.splitlines() if line.startswith(word + " "))


def job(pes):
    """Seconds from the first ferry_init to the last return of ferry_finalize, seconds of the whole command, and KiB
    of each PE, PE 0 first."""
    started = time.monotonic()
    out = lib.ferry(pes, "scale_pe", seconds=120)
    wall = time.monotonic() - started
    lines = numbers(out, "pe")
    if [line[0] for line in lines] != list(range(pes)):
        raise lib.Failed(f"a job of {pes} PEs: {len(lines)} of them reported")
    return (max(l[4] for l in lines) - min(l[1] for l in lines)) / 1e6, wall, [l[1] for l in numbers(out, "process")]


def large(pes):
    """A row of docs/scaling.md: PEs as threads of four processes."""
    each = pes // PROCESSES
    out = lib.ferry(PROCESSES, "scale_pe", each, seconds=300, FERRY_HEAP_CHUNK="2M")
    lines, held = numbers(out, "pe"), numbers(out, "process")
    if len(lines) != pes:
        raise lib.Failed(f"a job of {pes} PEs: {len(lines)} of them reported")
    begin, ready, passed, end = min(l[1] for l in lines), *(max(l[i] for l in lines) for i in (2, 3, 4))
    kib, fds, threads = (sum(h[i] for h in held) / pes for i in (1, 2, 3))
    started = time.monotonic()
    moe = lib.must([lib.RUN, "-n", PROCESSES, "--timeout=300", lib.BUILD / "examples" / "moe_dispatch", "--pes", each, "--text",
                    lib.ROOT / "README.md", *MOE], 320, FERRY_HEAP_CHUNK="2M")
    wall = time.monotonic() - started
    if "0 mismatched" not in moe:
        raise lib.Failed(f"moe_dispatch with {pes} PEs verified nothing")
    return (pes, f"{(ready - begin) / 1e6:.1f} s", f"{(passed - ready) / 1e6:.1f} s", f"{(end - passed) / 1e6:.1f} s",
            f"{kib:.0f} KiB", f"{fds:.1f}", f"{threads:.1f}", f"{wall:.1f} s")


def large_table():
    head = ["PEs", "ferry_init", "first barrier", "ferry_finalize", "memory per PE", "descriptors per PE", "threads per PE",
            "moe_dispatch, in all"]
    return lib.markdown(head, [large(pes) for pes in (64, 256, 1024)], "rrrrrrrr")


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
