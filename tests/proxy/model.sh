#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Has spin check the model of the command ring, and refuse each of its broken variants: a check that cannot fail is none.
# Arguments: the model, a C compiler.
set -eu
model=$1 cc=$2
command -v spin >/dev/null || { echo "spin is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Errors that spin finds in the model with these macros.
errors() {
    spin -a "$@" "$model" >spin.log || { cat spin.log; exit 1; }
    "$cc" -O1 -w -DSAFETY -DVECTORSZ=2048 -o pan pan.c
    ./pan -m200000 >pan.log || { cat pan.log; exit 1; }
    if grep -q 'max search depth too small' pan.log; then
        cat pan.log
        exit 1
    fi
    sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log
}

found=$(errors)
grep 'states, stored' pan.log
if [ "$found" != 0 ]; then
    cat pan.log
    echo "the protocol of the ring is wrong: spin finds $found errors"
    exit 1
fi
for broken in HOLE EARLY NOROOM TORN DROP; do
    found=$(errors "-D$broken")
    if [ "$found" = 0 ]; then
        echo "spin finds nothing wrong with the variant $broken"
        exit 1
    fi
    echo "$broken is refused: $(sed -n 's/^pan:[0-9]*: //p' pan.log | head -n 1)"
done
