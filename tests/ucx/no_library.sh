#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A machine without UCX, by a plugin that asks for a library that nobody has: asked for by name, the transport says which
# package is missing; `auto` passes on to loopback.
# usage: no_library.sh FERRY-RUN HELLO UCX.SO LOOPBACK.SO
set -u
unset LD_LIBRARY_PATH FERRY_PLUGIN_PATH
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
run=$1 hello=$2
cp "$4" "$dir"
sed 's/libucp\.so\.0/libucp.so.9/g' "$3" >"$dir/ucx.so" # of the same length

ask() { # TRANSPORT: two PEs; their output, and the exit status in $status
    out=$(FERRY_TRANSPORT=$1 FERRY_PLUGIN_PATH=$dir FERRY_LOG=info "$run" -n 2 "$hello" 2>&1)
    status=$?
}
has() {
    echo "$out" | grep -qF -- "$1" || { echo "not said: $1"; echo "$out"; bad=1; }
}

ask ucx
[ $status = 1 ] || { echo "no library, ended with $status"; bad=1; }
has "transport ucx ($dir/ucx.so): it cannot be loaded: libucp.so.9: cannot open shared object file"
has "; install the package libucx0 (Debian, Ubuntu) or ucx (Fedora, RHEL)"
ask auto
[ $status = 0 ] || { echo "auto ended with $status"; bad=1; }
has "transport: loopback"
has "pe 0 got: hello from pe 1"
exit $bad
