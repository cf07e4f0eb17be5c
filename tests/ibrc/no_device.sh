#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A machine with no RDMA device, and the system's own libibverbs; and one without that library, by a plugin that asks for one
# that nobody has. Asked for by name, ibrc says what is missing; `auto` passes on to loopback.
# usage: no_device.sh FERRY-RUN HELLO IBRC.SO LOOPBACK.SO
set -u
unset LD_LIBRARY_PATH FERRY_PLUGIN_PATH
if [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
    echo "this machine has RDMA devices: $(ls /sys/class/infiniband)"
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0

# ask TRANSPORT FOLDER: two PEs; their output, and the exit status in $status
ask() {
    out=$(FERRY_TRANSPORT=$1 FERRY_PLUGIN_PATH=$2 FERRY_LOG=info "$run" -n 2 "$hello" 2>&1)
    status=$?
}
has() {
    echo "$out" | grep -qF -- "$1" || { echo "not said: $1"; echo "$out"; bad=1; }
}
passes_on() {
    ask auto "$1"
    [ $status = 0 ] || { echo "auto ended with $status"; bad=1; }
    has "transport: loopback"
    has "pe 0 got: hello from pe 1"
}

run=$1 hello=$2
mkdir "$dir/real" "$dir/none"
cp "$3" "$4" "$dir/real"
cp "$4" "$dir/none"
sed 's/libibverbs\.so\.1/libibverbs.so.0/g' "$3" >"$dir/none/ibrc.so" # of the same length

ask ibrc "$dir/real"
[ $status = 1 ] || { echo "no device, ended with $status"; bad=1; }
has "cannot start: transport ibrc ($dir/real/ibrc.so): no RDMA device"
has "ibv_get_device_list and /sys/class/infiniband name none"
has "load the NIC's driver"
has "install ibverbs-providers"
has "pass /dev/infiniband into the container"
has "choose another transport in FERRY_TRANSPORT"
passes_on "$dir/real"

ask ibrc "$dir/none"
[ $status = 1 ] || { echo "no library, ended with $status"; bad=1; }
has "transport ibrc ($dir/none/ibrc.so): it cannot be loaded: libibverbs.so.0: cannot open shared object file"
has "; install the package libibverbs1 (Debian, Ubuntu) or libibverbs (Fedora, RHEL)"
has "with what it depends on"
passes_on "$dir/none"
exit $bad
