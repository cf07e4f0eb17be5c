#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Counts the plugin's own instructions per small operation, from post to retired, by callgrind: the slope between two runs.
# usage: instructions.sh PROGRAM; FERRY_TEST_IBRC names the plugin
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Instructions in the plugin's object for N operations.
count() { # PROGRAM KIND N
    valgrind --tool=callgrind --callgrind-out-file="$dir/out" "$1" "$2" "$3" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
    callgrind_annotate --threshold=100 "$dir/out" | grep 'ibrc\.so\]' | sed 's/,//g' | awk '{n += $1} END {print n + 0}'
}

rc=0
for row in put:80 add:130 set:130; do
    kind=${row%:*} most=${row#*:}
    few=$(count "$1" "$kind" 2000)
    many=$(count "$1" "$kind" 12000)
    per=$(((many - few) / 10000))
    echo "$kind: $per instructions, at most $most"
    [ "$few" -gt 0 ] && [ "$per" -gt 0 ] && [ "$per" -le "$most" ] || rc=1
done
exit $rc
