#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Exact costs of batches of 32, as users can see them: at most 1/16 doorbell and 1/32 signalled request per operation, no
# fenced request, no fence that waits.
# usage: batches.sh FERRY-RUN IBRC_BATCHES
out=$(FERRY_LOG=info "$1" -n 2 "$2" 10 2>&1) || { echo "$out"; exit 1; }
echo "$out"
echo "$out" | grep -q '0\] ferry .* channel [0-9]*: 320 requests, 20 doorbells, 10 signalled, 0 fenced$' || exit 1
echo "$out" | grep -q 'batches: [0-9]* puts, 0 drains$'
