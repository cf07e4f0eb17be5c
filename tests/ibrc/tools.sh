#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tools over the stand-in libibverbs: the doctor with and without devices, the plan of local PEs, and that a job does what its
# plan says. usage: tools.sh FERRY-INFO FERRY-RUN HELLO; in the environment LD_LIBRARY_PATH with the stand-in.
info=$1 run=$2 hello=$3
shared=$(mktemp -d) || exit 1
out=$shared/out
trap 'rm -rf "$shared"' EXIT
unset FERRY_TRANSPORT FERRY_IBRC_DEVICES FERRY_IBRC_MAP

fail() {
    echo "FAIL: $*"
    cat "$out"
    exit 1
}

# expect STATUS WORDS COMMAND...: it ends so, and says the words, whatever the lines.
expect() {
    want=$1 words=$2 rc=0
    shift 2
    "$@" >"$out" 2>&1 || rc=$?
    [ $rc = "$want" ] || fail "$*: status $rc, not $want"
    tr -s '\n ' ' ' <"$out" | grep -qF "$words" || fail "$*: does not say '$words'"
}

export FAKEVERBS_DEVICES=0
expect 1 "no RDMA device: /sys/class/infiniband" "$info" --doctor -t ibrc
expect 1 "what was asked for cannot be used" "$info" --doctor -t ibrc
expect 1 '"usable": false' "$info" --doctor --json -t ibrc
expect 0 "problem fake0:1 there is no partition key at index 9" env FAKEVERBS_DEVICES=1 FERRY_IBRC_PKEY_INDEX=9 "$info" --doctor -t auto # another can be used
expect 1 "no RDMA device" env FERRY_TRANSPORT=ibrc "$hello"
expect 1 "/sys/class/infiniband" env FERRY_TRANSPORT=ibrc "$hello"
expect 0 "got: hello" "$run" -n 2 "$hello" # auto passes on

# ibv_reg_dmabuf_mr is looked up when the plugin runs, in a program that is not linked with libibverbs
expect 0 "fake0 GPU memory registers dmabufs" env FAKEVERBS_DEVICES=1 "$info" --doctor -t ibrc
expect 0 "fake0 GPU memory neither dmabufs nor" env FAKEVERBS_DEVICES=1 FAKEVERBS_OFFERS=0 "$info" --doctor -t ibrc

export FAKEVERBS_DEVICES=2 FAKEVERBS_SHARED="$shared/wires" FERRY_TRANSPORT=ibrc
expect 0 "0 problems: what was asked for can be used" "$info" --doctor
expect 0 "pe 0 fake0:1, RoCE v2, 10.0.0.1 (gid index 1): all channels" "$info" --explain -n 2
expect 0 "pe 1 fake1:1" "$info" --explain -n 2
expect 0 '"devices": "fake1:1, RoCE v2' "$info" --explain --json -n 2
expect 0 "[pe 1] info: ibrc: rail 0: fake1:1" env FERRY_LOG=info "$run" -n 2 "$hello"
expect 0 "[pe 0] info: ibrc: rail 0: fake0:1" env FERRY_LOG=info "$run" -n 2 "$hello"
expect 0 "info: ibrc: channel 0 to pe 1: fake0:1, queue pair 0x" env FERRY_LOG=info "$run" -n 2 "$hello"
export FERRY_IBRC_MAP="0=fake1+fake0;1=fake0:1+fake1"
expect 0 "pe 1 fake0:1, RoCE v2, 10.0.0.1 (gid index 1): channels 0, 2, ...; fake1:1" "$info" --explain -n 2
expect 0 "[pe 1] info: ibrc: rail 1: fake1:1" env FERRY_LOG=info "$run" -n 2 "$hello"
# * is for all others, wherever it stands.
expect 0 "pe 0 fake1:1" env FERRY_IBRC_MAP="*=fake0;0=fake1" "$info" --explain -n 2
expect 1 "did you mean fake0?" env FERRY_IBRC_MAP="*=fak0" "$run" -n 2 "$hello"
unset FERRY_IBRC_MAP
expect 1 "ended with transport retry counter exceeded" env FAKEVERBS_SHARED= "$run" -n 2 "$hello" # devices without a wire
expect 0 "no option is called FERRY_IBRC_DEVICE; did you mean FERRY_IBRC_DEVICES" env FERRY_IBRC_DEVICE=fake0 "$run" -n 2 "$hello"
expect 0 "warning options no option is called FERRY_IBRC_DEVICE;" env FERRY_TRANSPORT=loopback FERRY_IBRC_DEVICE=fake0 "$info" --doctor -t ibrc,loopback
expect 1 "ibrc 0.1.0: bad option" env FERRY_IBRC_RAILS=9 "$info" # as those that are no numbers
expect 1 "FERRY_IBRC_RAILS=9 is not between 0 and 8 (correct the value, or unset it)" env FERRY_IBRC_RAILS=9 "$hello"
expect 1 "FERRY_IBRC_RAILS=9" env FERRY_TRANSPORT=auto FERRY_IBRC_RAILS=9 "$hello" # auto does not pass it over
# The report on a job that hangs asks the device.
expect 0 " RTS, " env FAKEVERBS_DELAY=writes:1500000us FERRY_STALL_SECONDS=0.3 "$run" -n 2 "$hello"
echo "PASS"
