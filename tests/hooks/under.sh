#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program under FERRY_HOOKS and looks at what the hooks say at the end: chaos must have reordered something, count
# must have found everything in balance. Arguments: the program and its own arguments.
set -u
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$@" >"$log" 2>&1
status=$?
grep -v ' chaos: seed \| count: in balance' "$log" | tail -n 60
if [ $status -ne 0 ]; then
    echo "$1 ended with $status"
    exit 1
fi
case ",$FERRY_HOOKS," in *,chaos,*)
    reversals=$(sed -n 's/.* chaos: seed .*: \([0-9]*\) reversals in .*/\1/p' "$log" | awk '{n += $1} END {print n + 0}')
    echo "$reversals reversals in $(grep -c ' chaos: seed ' "$log") instances"
    [ "$reversals" -gt 0 ] || { echo "chaos reordered nothing: the run proves nothing"; exit 1; }
esac
case ",$FERRY_HOOKS," in *,count,*)
    echo "$(grep -c ' count: in balance' "$log") instances in balance"
    grep -q ' count: in balance' "$log" || { echo "count said nothing"; exit 1; }
    grep 'out of balance' "$log" && exit 1
esac
exit 0
