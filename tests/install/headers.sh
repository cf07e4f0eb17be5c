#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each public header compiles alone, and twice over, as C11 and as C++17, without a warning.
# Arguments: the folder that has ferry/, the C compiler, the C++ compiler.
set -eu
include=$1 cc=$2 cxx=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0

compile() { # compiler, standard, language, file, more
    if ! "$1" "-std=$2" -x "$3" -Wall -Wextra -Werror -pedantic -fsyntax-only -I "$include" "$4" ${5+"$5"}; then
        echo "$header does not compile alone as $2"
        exit 1
    fi
}

# ferry/mpi.h is compiled with an MPI library's own mpi.h: those of Open MPI and MPICH, where they are.
with_mpi() {
    for library in openmpi mpich; do
        if ! command -v "mpicc.$library" >/dev/null; then
            echo "there is no mpicc.$library: ferry/mpi.h was not compiled with it"
            continue
        fi
        for compiler in "$cc" "$cxx"; do
            command -v "$compiler" >/dev/null || continue
            standard=c11 language=c
            [ "$compiler" = "$cc" ] || { standard=c++17 language=c++; }
            export OMPI_CC="$compiler" MPICH_CC="$compiler"
            # the C++ part of Open MPI's header is not ours to judge
            compile "mpicc.$library" $standard $language "$work/alone.c" -DOMPI_SKIP_MPICXX
        done
    done
}

for path in "$include"/ferry/*.h; do
    header=ferry/$(basename "$path")
    printf '#include <%s>\n#include <%s>\nint main(void)\n{\n    return 0;\n}\n' "$header" "$header" >"$work/alone.c"
    n=$((n + 1))
    if [ "$header" = ferry/mpi.h ]; then
        with_mpi
        continue
    fi
    compile "$cc" c11 c "$work/alone.c"
    if command -v "$cxx" >/dev/null; then
        compile "$cxx" c++17 c++ "$work/alone.c"
    fi
done
echo "$n headers"
[ "$n" -ge 3 ] || { echo "too few headers in $include/ferry"; exit 1; }
if ! command -v "$cxx" >/dev/null; then
    echo "no C++ compiler ($cxx): the C++17 half was not checked"
    exit 77
fi
