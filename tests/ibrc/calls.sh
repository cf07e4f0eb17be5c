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
    python3 "$(dirname "$0")/by_object.py" "$dir/out" '/(ibrc|libferry)\.so[.0-9]*$'
}

rc=0
for row in list/put:150 list/signal:235 wr/put:155 wr/signal:245; do
    most=${row#*:} kind=${row#*/} by=${row%/*}
    kind=${kind%:*}
    export FERRY_IBRC_POSTING="$by"
    few=$(count "$1" "$kind" 2000)
    many=$(count "$1" "$kind" 12000)
    per=$(((many - few) / 10000))
    echo "$kind by $by, from the call: $per instructions, at most $most"
    [ "$few" -gt 0 ] && [ "$per" -gt 0 ] && [ "$per" -le "$most" ] || rc=1
done
exit $rc
