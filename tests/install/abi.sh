#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# abi/libferry.txt, the version script, and the FERRY_API declarations of ferry.h name the same functions.
# Argument: the root of the source tree.
set -eu
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
status=0

same() { # what, file
    if ! diff -u "$root/abi/libferry.txt" "$2"; then
        echo "abi/libferry.txt (-) and $1 (+) differ"
        status=1
    fi
}

sort -u "$root/abi/libferry.txt" >"$work/sorted"
same "its own sorted form" "$work/sorted"

sed -n '/global:/,/local:/s/^ *\([a-z_0-9]*\);$/\1/p' "$root/abi/libferry.map" | sort >"$work/map"
same "abi/libferry.map" "$work/map"

sed -n 's/^FERRY_API .*[ *]\(ferry_[a-z_0-9]*\)(.*/\1/p' "$root/include/ferry/ferry.h" | sort >"$work/header"
same "include/ferry/ferry.h" "$work/header"

# A function without FERRY_API would be declared, and not be there.
if grep -nE '^[a-z][a-z_0-9 *]* \**ferry_[a-z_0-9]+\(' "$root/include/ferry/ferry.h" | grep -v typedef; then
    echo "declared in ferry.h without FERRY_API"
    status=1
fi
exit $status
