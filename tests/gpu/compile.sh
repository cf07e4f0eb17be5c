#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The headers for kernels compile for three generations of GPUs, the tests that use them for one, and no warning is left.
# Arguments: the source folder, nvcc or nothing.
set -eu
source=$1 nvcc=${2:-}
[ -n "$nvcc" ] || { echo "nvcc is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# file, architectures; up to intermediate code, where all warnings are. The examples and tools are built whole, for all
# generations, with everything else.
compile() {
    file=$1
    shift
    for arch; do
        "$nvcc" -std=c++17 -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror -arch=compute_"$arch" -I "$source/include" \
            -ptx "$file" -o "$work/out.ptx" || { echo "$file does not compile for $arch"; exit 1; }
    done
    echo "$(basename "$file"): $*"
}

compile "$source/tests/gpu/compile.cu" 80 90 100
compile "$source/tests/gpu/test_gpu.cu" 90
compile "$source/tests/gpu/gpu_rate.cu" 90
compile "$source/tests/gpu/direct_rate.cu" 90
compile "$source/tests/gpu/two_processes.cu" 90
compile "$source/tests/gpu/memory.cu" 90
# what is wrong is noticed: a function that does not exist
printf '#include <ferry/device.cuh>\n__global__ void k(struct ferry_gpu g) { ferry_gpu_no_such(g); }\n' >"$work/bad.cu"
if "$nvcc" -std=c++17 -arch=compute_90 -I "$source/include" -ptx "$work/bad.cu" -o "$work/out.ptx" 2>"$work/log"; then
    echo "nvcc compiles anything"
    exit 1
fi
grep -q ferry_gpu_no_such "$work/log"
