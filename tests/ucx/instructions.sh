#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Counts the plugin's own instructions per small operation through shared memory, by callgrind: the slope between two runs.
# usage: instructions.sh PROGRAM BY_OBJECT.PY; FERRY_TEST_UCX names the plugin
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

count() { # KIND N: instructions in the plugin's object
    valgrind --tool=callgrind --callgrind-out-file="$dir/out" "$1" "$2" "$3" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
    python3 "$by_object" "$dir/out" '/ucx\.so$'
}

by_object=$2
rc=0
for row in put:40 add:80; do
    most=${row#*:} kind=${row%:*}
    few=$(count "$1" "$kind" 2000)
    many=$(count "$1" "$kind" 12000)
    per=$(((many - few) / 10000))
    echo "$kind: $per instructions, at most $most"
    [ "$few" -gt 0 ] && [ "$per" -gt 0 ] && [ "$per" -le "$most" ] || rc=1
done
exit $rc
