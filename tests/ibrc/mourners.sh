#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Three PEs, of which the last is killed: the others have to end well. usage: mourners.sh FERRY-RUN MOURNERS
out=$("$1" -n 3 --grace 30 "$2" 2>&1)
status=$?
echo "$out"
[ "$status" = 137 ] || { echo "ferry-run ended with $status, not with 137"; exit 1; }
[ "$(echo "$out" | grep -c 'mourners: pe [01]: FERRY_OK')" = 2 ]
