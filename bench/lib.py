# SPDX-License-Identifier: Apache-2.0
"""What bench/compare, bench/instructions and bench/scale share: packages, the builds, running, and the document."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCH = ROOT / "bench"
BUILD = ROOT / "build-bench"
BIN = BUILD / "bench"
OUT = BENCH / "out"
DOCUMENT = ROOT / "docs" / "performance.md"
RUN = BUILD / "tools" / "ferry-run"

PACKAGES = ("build-essential meson ninja-build pkg-config libsodium-dev libjansson-dev "
            "openmpi-bin libopenmpi-dev ucx-utils gnuplot-nox valgrind").split()
TARGETS = ("ferry:shared_library", "loopback", "ferry-run", "moe_dispatch")
CFLAGS = "-O2 -g -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -fno-strict-aliasing".split()

# The heap is the one that UCX allocates: with any other, Open MPI serves small operations by messages to the target.
OSHRUN = ["oshrun", "--allow-run-as-root", "--bind-to", "none", "--oversubscribe", "--mca", "sshmem", "ucx"]


class Failed(Exception):
    """What went wrong, to be shown without a traceback."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command, seconds=120, **environment):
    """Standard output and exit status of a command. It and all it started are killed when the time is over."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("FERRY_")} | environment
    with subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=env, start_new_session=True) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise Failed(f"{' '.join(map(str, command))}: not done after {seconds} s") from None
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return out, err, process.returncode


def must(command, seconds=600, **environment):
    out, err, status = run(command, seconds, **environment)
    if status != 0:
        raise Failed(f"{' '.join(map(str, command))}: status {status}\n{out[-2000:]}{err[-2000:]}")
    return out


def install():
    """Installs what is missing if it may; else says what to run."""
    if not shutil.which("dpkg-query"):
        return
    listed = run(["dpkg-query", "-W", "-f=${Package} ${Status}\n", *PACKAGES])[0]
    missing = [p for p in PACKAGES if f"{p} install ok installed" not in listed]
    if not missing:
        return
    if os.geteuid() != 0:
        raise Failed(f"missing packages; run:  sudo apt-get install -y {' '.join(missing)}")
    say(f"installing {' '.join(missing)}")
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing]
    if run(command, 600, DEBIAN_FRONTEND="noninteractive")[2] != 0:
        must(["apt-get", "update", "-qq"])
        must(command, DEBIAN_FRONTEND="noninteractive")


def build():
    """Ferry as a release, and the programs of the bench, all in build-bench."""
    if not (BUILD / "build.ninja").exists():
        say("configuring build-bench")
        must(["meson", "setup", BUILD, ROOT, "--buildtype=release", "-Dtests=disabled"])
    say("building")
    must(["meson", "compile", "-C", BUILD, "-j", str(os.cpu_count() or 2), *TARGETS], 900)
    BIN.mkdir(exist_ok=True)
    OUT.mkdir(exist_ok=True)
    ferry = [f"-I{ROOT / 'include'}", f"-L{BUILD}", "-lferry", f"-Wl,-rpath,{BUILD}"]
    for name, compiler, more, sources in (
            ("limits", "cc", [], ["limits.c", "harness.c"]),
            ("shmem_ops", "oshcc", [], ["shmem_ops.c", "harness.c"]),
            ("ferry_ops", "cc", ferry, ["ferry_ops.c", "harness.c"]),
            ("scale_pe", "cc", [*ferry, "-pthread"], ["scale_pe.c"])):
        must([compiler, *CFLAGS, "-o", BIN / name, *(BENCH / s for s in sources), *more])


def ferry(pes, program, *arguments, seconds=120, **environment):
    return must([RUN, "-n", str(pes), f"--timeout={seconds}", BIN / program, *arguments], seconds + 15, **environment)


def shmem(pes, *arguments, heap="320M", seconds=120, prefix=()):
    """Open MPI 4.1.4 ends with a crash in shmem_finalize, after all results: the last line tells, not the status."""
    out, err, _ = run([*OSHRUN, "-n", str(pes), *prefix, BIN / "shmem_ops", *arguments], seconds,
                      SHMEM_SYMMETRIC_SIZE=heap, UCX_WARN_UNUSED_ENV_VARS="n")
    if "# end" not in out:
        raise Failed(f"shmem_ops {' '.join(arguments)} did not reach its end\n{out[-1000:]}{err[-2000:]}")
    return out


def host():
    """What was measured on, and with what."""
    cpu = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    release = re.search(r'PRETTY_NAME="(.*)"', pathlib.Path("/etc/os-release").read_text())
    rows = [("processor", f"{cpu.group(1) if cpu else 'unknown'}, {len(os.sched_getaffinity(0))} cores"),
            ("system", f"{release.group(1) if release else 'unknown'}, Linux {os.uname().release}")]
    cache = pathlib.Path("/sys/devices/system/cpu/cpu0/cache/index3/size")
    if cache.exists():
        rows.append(("last level cache", cache.read_text().strip()))
    for package in ("openmpi-bin", "ucx-utils", "gcc", "valgrind"):
        version = run(["dpkg-query", "-W", "-f=${Version}", package])[0] if shutil.which("dpkg-query") else ""
        if version:
            rows.append((package, version))
    revision = run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"])[0].strip()
    if revision:
        changed = run(["git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no"])[0].strip()
        rows.append(("Ferry", revision + (" and uncommitted changes" if changed else "")))
    return markdown(["", ""], rows, "ll")


def markdown(head, rows, align):
    """A table; `align` has l or r for each column."""
    cells = [[str(c) for c in row] for row in [head, *rows]]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(head))]
    def line(row):
        fitted = (c.ljust(w) if a == "l" else c.rjust(w) for c, w, a in zip(row, widths, align))
        return "| " + " | ".join(fitted) + " |"
    rule = "|" + "|".join("-" * (w + 2) if a == "l" else "-" * (w + 1) + ":" for w, a in zip(widths, align)) + "|"
    return "\n".join([line(cells[0]), rule, *map(line, cells[1:])])


def write_section(name, text, path=DOCUMENT):
    """Replaces what is between the markers of a section in docs/performance.md, or another document."""
    document = path.read_text()
    begin, end = f"<!-- bench: {name} begin -->\n", f"<!-- bench: {name} end -->\n"
    if document.count(begin) != 1 or document.count(end) != 1:
        raise Failed(f"docs/{path.name} has no section {name}")
    before, rest = document.split(begin)
    after = rest.split(end)[1]
    path.write_text(before + begin + text.strip("\n") + "\n" + end + after)


def main(body):
    """Runs a command of the bench; failures that were foreseen end with their text alone."""
    try:
        sys.exit(body())
    except Failed as failure:
        say(f"{pathlib.Path(sys.argv[0]).name}: {failure}")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
