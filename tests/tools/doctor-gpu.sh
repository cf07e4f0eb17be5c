#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What ferry-info --doctor says of GPUs, over a driver's library that stands in. usage: doctor-gpu.sh FERRY-INFO FOLDER OLD-FOLDER,
# the folders with the libraries.
info=$1 new=$2 old=$3
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
unset FERRY_GPU_MEMORY FERRY_HEAP_KIND
export LC_ALL=C

# expect WORDS NAME=VALUE...: with these settings it ends with 0 and says the words, whatever the lines; "! WORDS": it does not.
expect() {
    words=$1 rc=0
    shift
    env "$@" "$info" --doctor -t loopback $json >"$out" 2>&1 || rc=$?
    [ $rc = 0 ] || { echo "FAIL: $*: status $rc"; cat "$out"; exit 1; }
    case $words in
    "! "*) ! tr -s '\n ' ' ' <"$out" | grep -qFe "${words#! }" ;;
    *) tr -s '\n ' ' ' <"$out" | grep -qFe "$words" ;;
    esac || { echo "FAIL: $*: '$words'"; cat "$out"; exit 1; }
}
json=

# A machine with a driver cannot show how it is without.
if LD_LIBRARY_PATH='' "$info" --doctor -t loopback | grep -q 'libcuda.so.1 not found'; then
    expect "ok GPU driver libcuda.so.1 not found: libcuda.so.1: cannot open" LD_LIBRARY_PATH=
    expect "host memory works without it" LD_LIBRARY_PATH=
    expect "! GPU 0" LD_LIBRARY_PATH=
    expect "warning GPU driver libcuda.so.1 not found" LD_LIBRARY_PATH= FERRY_GPU_MEMORY=yes
    expect "-> install the GPU's driver; host memory" LD_LIBRARY_PATH= FERRY_HEAP_KIND=gpu
fi
expect "warning GPU driver libcuda.so.1 is too old: it has no function cu" LD_LIBRARY_PATH="$old"
expect "-> install a newer driver; host memory works" LD_LIBRARY_PATH="$old"

export LD_LIBRARY_PATH="$new"
expect "ok GPU driver the driver finds no GPU; host memory works without it" FAKECUDA_DEVICES=0
expect "warning GPU driver the driver finds no GPU -> look at nvidia-smi" FAKECUDA_DEVICES=0 FERRY_GPU_MEMORY=yes
expect "warning GPU driver the GPU's driver: cannot start: CUDA_ERROR_NOT_INITIALIZED (CUDA error 3) -> look at nvidia-smi" FAKECUDA_FAIL=cuInit:3
expect "warning GPU driver the GPU's driver: cannot count GPUs: CUDA_ERROR_INVALID_VALUE" FAKECUDA_FAIL=cuDeviceGetCount:1

expect "ok GPU driver for CUDA 12.4 and older; it finds 1 GPU ok GPU 0 Stand-in 0, 0000:3B:00.0, 1024 MiB; the heap can" FAKECUDA_VERSION=12040
expect "ok GPU 0 and GPUs peers: none, there is no other GPU" FAKECUDA_DEVICES=1
# No context is made.
expect "ok GPU 0 Stand-in 0" FAKECUDA_FAIL=cuDevicePrimaryCtxRetain:2
expect "warning GPU 0 Stand-in 0, 0000:3B:00.0, 1024 MiB; the heap cannot lie in its memory: the driver offers no virtual" FAKECUDA_VMM=0
expect "the driver offers no file descriptors for it -> take another GPU (FERRY_GPU_DEVICE)" FAKECUDA_DESCRIPTORS=0

expect "ok GPU 0 and NICs its memory may be given to NICs by peer memory module, not by dmabuf; kernels of every GPU see" FAKECUDA_DMABUF=0
expect "by dmabuf or peer memory module; kernels of this GPU alone see" FAKECUDA_DMABUF=1 FAKECUDA_WRITES_ORDERING=100
expect "by dmabuf, the heap's may not; their writes need a flush to be seen" FAKECUDA_DMABUF=1 FAKECUDA_RDMA=0 FAKECUDA_RDMA_VMM=0 FAKECUDA_WRITES_ORDERING=0
expect "ok GPU 0 and NICs no GPUDirect RDMA: NICs do not" FAKECUDA_RDMA=0

export FAKECUDA_DEVICES=2
expect "it finds 2 GPUs ok GPU 0 Stand-in 0," FAKECUDA_VERSION=13000
expect "ok GPU 1 Stand-in 1, 0000:3C:00.0" FAKECUDA_MEMORY=1048576
expect "ok GPU 0 and GPUs peers: 1 " FAKECUDA_PEERS=3
expect "ok GPU 1 and GPUs peers: 0 " FAKECUDA_PEERS=3
expect "warning GPU 1 and GPUs peers: none; it cannot map the memory of the other 1 -> nvidia-smi topo -p2p r" FAKECUDA_PEERS=0
expect "warning GPU 2 and GPUs peers: 0; it cannot map the memory of the other 1" FAKECUDA_DEVICES=3 FAKECUDA_PEERS=1
expect "ok GPU 2 and GPUs peers: 0,1 " FAKECUDA_DEVICES=3
json=--json
expect '{ "owner": "core", "object": "GPU 1 and GPUs", "level": "ok", "found": "peers: 0", "advice": "" }' FAKECUDA_PEERS=3
echo "PASS"
