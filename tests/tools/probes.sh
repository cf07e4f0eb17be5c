#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The library, and the transport that rings doorbells, have their probes, and the example uses those and no others.
# usage: probes.sh EXAMPLE LIBFERRY [IBRC]
set -eu
example=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for object; do
    readelf -n "$object" | sed -n '/Provider: ferry/{n;s/.*Name: //p;}'
done | sort -u >"$work/there"
sed -n 's/^usdt:.*:ferry:\([a-z_]*\)$/\1/p' "$example" | sort -u >"$work/used"
[ $# -gt 1 ] || sed -i '/^doorbell$/d' "$work/used"
diff "$work/used" "$work/there" || { echo "< $example uses, > the objects have"; exit 1; }
[ -s "$work/there" ] || { echo "no probes"; exit 1; }
