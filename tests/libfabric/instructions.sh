#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Counts the plugin's own instructions per 8-byte put, from post to retired, by callgrind: the slope between two runs.
# usage: instructions.sh PROGRAM BY_OBJECT.PY; FERRY_TEST_LIBFABRIC names the plugin
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

count() { # PROVIDER N
    valgrind --tool=callgrind --callgrind-out-file="$dir/out" "$program" "$1" "$2" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
    python3 "$by_object" "$dir/out" 'plugins/libfabric\.so$'
}

program=$1 by_object=$2 most=60
few=$(count shm 2000)
many=$(count shm 12000)
per=$(((many - few) / 10000))
echo "put over shm: $per instructions, at most $most"
[ "$few" -gt 0 ] && [ "$per" -gt 0 ] && [ "$per" -le "$most" ]
