#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Counts the plugin's own instructions per small operation, from post to retired, by callgrind: the slope between two runs.
# usage: instructions.sh PROGRAM; FERRY_TEST_IBRC names the plugin
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Instructions in the plugin's object for N operations.
count() { # PROGRAM POSTING KIND N
    valgrind --tool=callgrind --callgrind-out-file="$dir/out" "$1" "$2" "$3" "$4" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
    python3 "$(dirname "$0")/by_object.py" "$dir/out" '/ibrc\.so$'
}

rc=0
for row in list/put:80 list/add:130 list/set:130 list/batch:120 wr/put:82 wr/add:130 wr/set:130 wr/batch:120; do
    most=${row#*:} kind=${row#*/} by=${row%/*}
    kind=${kind%:*}
    few=$(count "$1" "$by" "$kind" 2000)
    many=$(count "$1" "$by" "$kind" 12000)
    per=$(((many - few) / 10000))
    echo "$kind by $by: $per instructions, at most $most"
    [ "$few" -gt 0 ] && [ "$per" -gt 0 ] && [ "$per" -le "$most" ] || rc=1
done
exit $rc
