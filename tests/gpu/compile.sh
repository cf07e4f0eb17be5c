#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The headers for kernels, and the programs that use them, compile for three generations of GPUs, and no warning is left.
# Arguments: the source folder, nvcc or nothing.
set -eu
source=$1 nvcc=${2:-}
[ -n "$nvcc" ] || { echo "nvcc is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# file, architectures
compile() {
    file=$1
    shift
    targets=""
    for arch; do
        targets="$targets -gencode arch=compute_$arch,code=sm_$arch"
    done
    # shellcheck disable=SC2086
    "$nvcc" -std=c++17 -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror $targets -I "$source/include" \
        -c "$file" -o "$work/out.o" || { echo "$file does not compile for $*"; exit 1; }
    echo "$(basename "$file"): sm $*"
}

compile "$source/tests/gpu/compile.cu" 80 90 100
compile "$source/examples/ring_gpu.cu" 80 90 100
compile "$source/tests/gpu/test_gpu.cu" 90
compile "$source/tests/gpu/gpu_rate.cu" 90
compile "$source/tests/gpu/direct_rate.cu" 90
compile "$source/tests/gpu/two_processes.cu" 90
compile "$source/tests/gpu/memory.cu" 90
compile "$source/examples/moe_dispatch_gpu/kernels.cu" 90
compile "$source/tools/perf_gpu.cu" 90
# what is wrong is noticed: a function that does not exist
printf '#include <ferry/device.cuh>\n__global__ void k(struct ferry_gpu g) { ferry_gpu_no_such(g); }\n' >"$work/bad.cu"
if "$nvcc" -std=c++17 -arch=sm_90 -I "$source/include" -c "$work/bad.cu" -o "$work/out.o" 2>"$work/log"; then
    echo "nvcc compiles anything"
    exit 1
fi
grep -q ferry_gpu_no_such "$work/log"
