#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The plugin needs nothing of libibverbs that is newer than version 32, nor anything private: newer verbs are asked for when it runs.
# usage: symbols.sh PLUGIN
needs=$(readelf -V "$1" | sed -n 's/.*Name: \(IBVERBS_[A-Z0-9_.]*\) .*/\1/p' | sort -u)
[ -n "$needs" ] || { echo "it needs no libibverbs at all?"; exit 1; }
for version in $needs; do
    case $version in
    IBVERBS_1.[0-9] | IBVERBS_1.1[01]) ;;
    *) echo "it needs $version"; exit 1 ;;
    esac
done
