# SPDX-License-Identifier: Apache-2.0
# Rows of conformance to a table: a line for each row, plain and under chaos; a column for each group of rules.
# First file: the jobs, for the order of rows. Second file: lines "row GUISE HOOKS SEED GROUP=pass/fail/na … KEY=VALUE".
FNR == NR {
    key = $2 " " $3
    if (!(key in wanted)) order[++n_rows] = key
    wanted[key]++
    next
}
{
    key = $2 " " $3
    came[key]++
    for (i = 5; i <= NF; i++) {
        split($i, pair, "=")
        if (split(pair[2], count, "/") == 3) {
            if (!(pair[1] in seen)) { seen[pair[1]] = 1; groups[++n_groups] = pair[1] }
            pass[key, pair[1]] += count[1]; fail[key, pair[1]] += count[2]; na[key, pair[1]] += count[3]
        } else if (pair[1] == "reversals") {
            reversals[key] += pair[2]
            if ($3 != "none" && pair[2] == 0) still[key]++
        } else if (pair[1] == "seconds") seconds[key] += pair[2]
        else if (pair[1] == "ended") early[key]++
    }
}
function cell(key, group,    text) {
    text = pass[key, group] + 0
    if (na[key, group]) text = text " +" na[key, group] "na"
    if (fail[key, group]) text = text " " fail[key, group] "F"
    return text
}
END {
    width = 14
    for (r = 1; r <= n_rows; r++) { split(order[r], part, " "); if (length(part[1]) > width) width = length(part[1]) }
    printf "%-" width "s %-5s", "row", "mode"
    for (g = 1; g <= n_groups; g++) printf " %10s", groups[g]
    printf " %10s %6s\n", "reversals", "s"
    for (r = 1; r <= n_rows; r++) {
        key = order[r]; split(key, part, " ")
        printf "%-" width "s %-5s", part[1], part[2] == "none" ? "plain" : "chaos"
        for (g = 1; g <= n_groups; g++) {
            printf " %10s", cell(key, groups[g])
            bad += fail[key, groups[g]]; good += pass[key, groups[g]]; none += na[key, groups[g]]
        }
        printf " %10s %6.1f", part[2] == "none" ? "-" : reversals[key], seconds[key]
        if (early[key] || came[key] < wanted[key]) { printf "  a run ended early"; bad++ }
        if (still[key]) { printf "  chaos reordered nothing"; bad++ }
        printf "\n"
    }
    printf "matrix: %d passed, %d failed, %d not applicable\n", good, bad, none
    exit bad > 0
}
