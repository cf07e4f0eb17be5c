# SPDX-License-Identifier: Apache-2.0
"""Latency and bandwidth by size, drawn with gnuplot to docs/*.svg."""
import statistics

import lib

STYLE = """set terminal svg size %s font "sans,13" background "white"
set output "%s"
set key %s
set grid
set logscale x 2
set format x "%%.0b %%BB"
set style line 1 lc rgb "#888888" lw 2 dt 2 pt 6
set style line 2 lc rgb "#c05020" lw 2 pt 4
set style line 3 lc rgb "#1060b0" lw 2 pt 7
"""


def points(rounds, system, measure):
    """(bytes, ns), by size."""
    sizes = sorted({size for r in rounds for name, size in r.figures[system] if name == measure})
    return [(size, statistics.median(r.figures[system][measure, size][0] for r in rounds
                                     if (measure, size) in r.figures[system])) for size in sizes]


def block(name, values):
    return f"${name} << EOD\n" + "\n".join(f"{x} {y:.4f}" for x, y in values) + "\nEOD\n"


def draw(script, name):
    path = lib.OUT / f"{name}.gnuplot"
    path.write_text(script)
    lib.must(["gnuplot", path], 60)


def latency(rounds, target):
    lines = (("limits", "memcpy and a flag", 1), ("OpenSHMEM", "OpenSHMEM: put, fence, p", 2),
             ("Ferry", "Ferry: put\\\\_signal", 3))
    script = STYLE % ("760,480", target, "top left reverse Left")
    script += "".join(block(f"l{style}", points(rounds, system, "put_signal_pp")) for system, _, style in lines)
    script += 'set title "Data and a flag to the other core, half a round trip"\nset logscale y\n'
    script += 'set ylabel "ns"\nset xlabel "bytes"\nplot '
    script += ", ".join(f'$l{style} with linespoints ls {style} title "{title}"' for _, title, style in lines)
    draw(script + "\n", "latency")


def bandwidth(rounds, target):
    script = STYLE % ("1100,720", target, "bottom left reverse Left") + "set multiplot layout 2,2\n"
    script += 'set ylabel "GB/s"\nset xlabel "bytes"\nset yrange [0:*]\n'
    for what in ("put", "get"):
        for reuse in ("cached", "cold"):
            lines = (("limits", f"copy_{reuse}", "memcpy", 1), ("OpenSHMEM", f"{what}_{reuse}", "OpenSHMEM", 2),
                     ("Ferry", f"{what}_{reuse}", "Ferry", 3))
            for system, measure, _, style in lines:
                rates = [(size, size / ns) for size, ns in points(rounds, system, measure)]
                script += block(f"{what}_{reuse}_{style}", rates)
            words = "same buffers again" if reuse == "cached" else "memory that is in no cache"
            script += f'set title "{what}, {words}"\nplot '
            script += ", ".join(f'${what}_{reuse}_{style} with linespoints ls {style} title "{title}"'
                                for _, _, title, style in lines) + "\n"
    draw(script + "unset multiplot\n", "bandwidth")


def draw_all(rounds, folder):
    latency(rounds, folder / "latency.svg")
    bandwidth(rounds, folder / "bandwidth.svg")
