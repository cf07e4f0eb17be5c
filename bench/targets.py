# SPDX-License-Identifier: Apache-2.0
"""What is compared with what, and what Ferry is to reach; the table of it."""
import statistics

import lib

KIB, MIB = 1 << 10, 1 << 20


class Row:
    """One measure. goals: (systems, keys) of which the lower counts, bound; a bound of 'at most' for times, and
    'at least' for rates and bandwidths. `limit`: key of the raw limit, if there is one."""

    def __init__(self, title, key, unit, goals, limit=None):
        self.title, self.key, self.unit, self.goals, self.limit = title, key, unit, goals, limit

    def key_of(self, system):
        return self.limit if system == "limits" else self.key

    def in_unit(self, ns):
        if self.unit == "Mop/s":
            return 1e3 / ns
        return self.key[1] / ns if self.unit == "GB/s" else ns

    def more_is_better(self):
        return self.unit != "ns"


def words(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB" if size >= KIB else f"{size} B"


def bandwidth_rows():
    for what in ("put", "get"):
        for reuse in ("cached", "cold"):
            for size in (4 * KIB, 64 * KIB, MIB, 16 * MIB):
                yield Row(f"{what} {words(size)}, {reuse}", (f"{what}_{reuse}", size), "GB/s",
                          [(("limits",), 0.95), (("OpenSHMEM",), 1.0)], limit=(f"copy_{reuse}", size))


ROWS = [
    Row("signal ping-pong 8 B, half round trip", ("signal_pp", 8), "ns", [(("limits", "OpenSHMEM"), 1.05)],
        limit=("signal_pp", 8)),
    Row("put_signal 64 B, half round trip", ("put_signal_pp", 64), "ns", [(("limits",), 1.2)],
        limit=("put_signal_pp", 64)),
    Row("put_nbi rate 8 B", ("put_nbi", 8), "Mop/s", [(("OpenSHMEM",), 1.5)]),
    Row("put + quiet 8 B", ("put_quiet", 8), "ns", [(("OpenSHMEM",), 0.6)]),
    Row("get 8 B", ("get", 8), "ns", [(("OpenSHMEM",), 0.6)]),
    Row("fetch_add", ("fetch_add", 8), "ns", [(("OpenSHMEM",), 0.6)], limit=("fetch_add", 8)),
    Row("atomic add rate", ("add", 8), "Mop/s", []),
    Row("quiet, nothing outstanding", ("quiet", 8), "ns", [((), 3.0)]),
    Row("barrier, 2 PEs", ("barrier", 8), "ns", [(("OpenSHMEM",), 1.0)]),
    Row("barrier, 16 PEs on all cores", ("barrier16", 8), "ns", [(("OpenSHMEM",), 1.0)]),
    *bandwidth_rows(),
]
NAMES = {"limits": "raw", "OpenSHMEM": "OpenSHMEM", "UCP": "UCP"}


def summary(rounds, system, row):
    """Median of the rounds' medians, and the best batch of all, in the row's unit; None where nobody measured it."""
    key = row.key_of(system)
    pairs = [r.figures[system][key] for r in rounds if key in r.figures.get(system, {})]
    if not pairs:
        return None
    return row.in_unit(statistics.median(p[0] for p in pairs)), row.in_unit(min(p[1] for p in pairs))


def ratio(rounds, row, systems):
    """Median over the rounds of Ferry's figure by the better of the systems' in the same round."""
    each = []
    for r in rounds:
        mine = r.figures["Ferry"].get(row.key)
        theirs = [r.figures[s][row.key_of(s)][0] for s in systems if row.key_of(s) in r.figures[s]]
        if mine and theirs:
            each.append(min(theirs) / mine[0] if row.more_is_better() else mine[0] / min(theirs))
    return statistics.median(each) if each else None


def judge(rounds, row):
    """(ratio, to reach, met) in words, for the goals of a row."""
    ratios, aims, good = [], [], []
    for systems, bound in row.goals:
        if not systems:
            value = summary(rounds, "Ferry", row)
            aims.append(f"≤ {bound:g} {row.unit}")
            good.append(value is not None and value[0] <= bound)
            continue
        value = ratio(rounds, row, systems)
        names = " and ".join(NAMES[s] for s in systems)
        names = f"the lower of {names}" if len(systems) > 1 else names
        aims.append(f"{'≥' if row.more_is_better() else '≤'} {bound:g} × {names}")
        ratios.append("–" if value is None else f"{value:.2f}")
        # as printed: two digits are more than such a machine can tell apart
        good.append(value is not None and (round(value, 2) >= bound if row.more_is_better()
                                           else round(value, 2) <= bound))
    met = "" if not good else "yes" if all(good) else "**no**"
    return "; ".join(ratios), "; ".join(aims), met


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def table_rows(rounds):
    for row in ROWS:
        cells = []
        for system in ("Ferry", "limits", "OpenSHMEM", "UCP"):
            value = summary(rounds, system, row) if row.key_of(system) else None
            cells.append("–" if value is None else f"{number(value[0])} ({number(value[1])})")
        yield (f"{row.title}, {row.unit}", *cells, *judge(rounds, row))


HEAD = ["measure, median (best)", "Ferry", "raw", "OpenSHMEM", "UCP", "ratio", "to reach", "met"]


def table(rounds):
    return lib.markdown(HEAD, list(table_rows(rounds)), "lrrrrrll")
