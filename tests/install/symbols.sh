#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# libferry.so exports what abi/libferry.txt lists and nothing else; each plugin exports ferry_plugin_v1 alone, a bootstrap
# ferry_bootstrap_v1, and needs no symbol of the core.
# Arguments: the library, the file that lists its symbols, the plugins.
set -eu
library=$1 list=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
status=0

# The version's own name (type A) is no symbol of the library.
nm -D --defined-only "$library" | awk '$2 != "A" {sub(/@.*/, "", $3); print $3}' | sort >"$work/exported"
if ! diff -u "$list" "$work/exported"; then
    echo "$list (-) and what $library exports (+) differ"
    status=1
fi

[ $# -gt 0 ] || { echo "no plugins were given"; exit 1; }
for plugin; do
    exported=$(nm -D --defined-only "$plugin" | awk '$2 != "A" {sub(/@.*/, "", $3); print $3}' | tr '\n' ' ')
    one=ferry_plugin_v1
    case $plugin in *bootstraps/*) one=ferry_bootstrap_v1 ;; esac
    if [ "$exported" != "$one " ]; then
        echo "$plugin exports: $exported"
        status=1
    fi
    needed=$(nm -D --undefined-only "$plugin" | awk '$NF ~ /^(ferry|fy)_/ {printf "%s ", $NF}')
    if [ -n "$needed" ]; then
        echo "$plugin needs of the core: $needed"
        status=1
    fi
    if readelf -d "$plugin" | grep 'NEEDED.*libferry'; then
        echo "$plugin is linked to libferry"
        status=1
    fi
    echo "$(basename "$plugin"): $exported"
done
exit $status
