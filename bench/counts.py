# SPDX-License-Identifier: Apache-2.0
"""Instructions per operation, counted by callgrind: PE 0 of two runs under it, on the very loops that are timed."""
import os
import pathlib
import re
import tempfile

import lib

OPERATIONS = (  # measure, words, most that Ferry may need
    ("put_nbi", "put_nbi 8 B", 60),
    ("put_quiet", "put_nbi 8 B + quiet", None),
    ("get", "get 8 B", None),
    ("add", "add", None),
    ("fetch_add", "fetch_add", 80),
    ("put_signal", "put_signal 8 B", 100),
    ("quiet", "quiet, nothing outstanding", None),
)
ITERATIONS = 3000
WRAPPER = """#!/bin/sh
if [ "${FERRY_RANK:-$OMPI_COMM_WORLD_RANK}" = 0 ]; then
    exec valgrind -q --tool=callgrind --collect-atstart=no --compress-strings=no \\
        --callgrind-out-file="$FOLDER/counts" "$PROGRAM" -c %d
fi
exec "$PROGRAM" -c %d
""" % (ITERATIONS, ITERATIONS)


def read_dump(path, program):
    """What was counted, and how much was executed outside of the program: in libraries, so not in its own loop."""
    label, own, outside, skip = None, False, 0, False
    for line in path.read_text().splitlines():
        if line.startswith("desc: Trigger: Client Request:"):
            label = line.split(":", 3)[3].split()
        elif line.startswith("ob="):
            own = pathlib.Path(line[3:]).name == program
        elif line.startswith("calls="):
            skip = True  # the next line is what the callee cost, which is counted where it was executed
        elif re.match(r"[0-9+*-]", line):
            if not skip and not own:
                outside += int(line.split()[1])
            skip = False
    return label, outside


def count(program, start):
    """{measure: instructions per operation}. start(folder) runs the job with the wrapper in that folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "pe").write_text(WRAPPER)
        os.chmod(folder / "pe", 0o755)
        start(folder)
        totals = {}
        for dump in folder.glob("counts.*"):
            label, outside = read_dump(dump, program)
            if label:
                totals[label[0], int(label[2])] = outside
    # the second stretch is three times the first
    return {measure: (totals[measure, 3 * ITERATIONS] - totals[measure, ITERATIONS]) / (2 * ITERATIONS)
            for measure, _, _ in OPERATIONS if (measure, 3 * ITERATIONS) in totals}


def count_ferry():
    def start(folder):  # valgrind does not give away 64 GiB of addresses
        lib.must([lib.RUN, "-n", "2", "--timeout=120", folder / "pe"], 140, FOLDER=str(folder),
                 PROGRAM=str(lib.BIN / "ferry_ops"), FERRY_HEAP_SIZE="1G")
    return count("ferry_ops", start)


def count_shmem():
    def start(folder):
        out, err, _ = lib.run([*lib.OSHRUN, "-n", "2", folder / "pe"], 140, FOLDER=str(folder),
                              PROGRAM=str(lib.BIN / "shmem_ops"), SHMEM_SYMMETRIC_SIZE="320M")
        if "# end" not in out:
            raise lib.Failed(f"shmem_ops under callgrind did not reach its end\n{err[-2000:]}")
    return count("shmem_ops", start)


def rows(ferry, shmem):
    """Of a table: operation, Ferry, OpenSHMEM, to reach, met."""
    for measure, words, most in OPERATIONS:
        value = ferry[measure]
        met = "" if most is None else "yes" if round(value) <= most else "**no**"
        yield (words, f"{value:.0f}", f"{shmem[measure]:.0f}" if measure in shmem else "–",
               f"≤ {most}" if most else "", met)


def table(ferry, shmem):
    return lib.markdown(["instructions per operation", "Ferry", "OpenSHMEM", "to reach", "met"],
                        list(rows(ferry, shmem)), "lrrrl")
