#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Four PEs, of which the last is killed: three have to hear of it, and end well.
# usage: victim.sh FERRY-RUN "VM_VICTIM" [device]     (the program may be several words)
# shellcheck disable=SC2086
out=$("$1" -n 4 --grace 30 $2 10 $3 2>&1)
status=$?
echo "$out"
# 137: no PE failed before or besides the one that was killed
[ "$status" = 137 ] || { echo "ferry-run ended with $status, not with 137"; exit 1; }
[ "$(echo "$out" | grep -c 'heard of pe 3 after')" = 3 ] || { echo "not all of three heard of pe 3"; exit 1; }
[ "$(echo "$out" | grep -c 'was killed by signal')" = 1 ] || { echo "not all of three ended by themselves"; exit 1; }
echo "$out" | grep -q 'exited with status' && exit 1
exit 0
