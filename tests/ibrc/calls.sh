#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Counts the instructions of a call of the application, in Ferry and the plugin together, by callgrind: the slope between two
# runs. What the stand-in libibverbs executes, and the program's own loop, are left out.
# usage: calls.sh PROGRAM
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

count() { # PROGRAM KIND N
    valgrind --tool=callgrind --collect-atstart=no --toggle-collect=measured --callgrind-out-file="$dir/out" "$1" "$2" "$3" \
        >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
    callgrind_annotate --threshold=100 "$dir/out" | grep -E '(ibrc\.so|libferry\.so[.0-9]*)\]' | sed 's/,//g' |
        awk '{n += $1} END {print n + 0}'
}

rc=0
for row in put:150 signal:220; do
    few=$(count "$1" "${row%:*}" 2000)
    many=$(count "$1" "${row%:*}" 12000)
    per=$(((many - few) / 10000))
    echo "${row%:*}, from the call: $per instructions, at most ${row#*:}"
    [ "$few" -gt 0 ] && [ "$per" -gt 0 ] && [ "$per" -le "${row#*:}" ] || rc=1
done
exit $rc
