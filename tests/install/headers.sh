#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each public header compiles alone, and twice over, as C11 and as C++17, without a warning.
# Arguments: the folder that has ferry/, the C compiler, the C++ compiler.
set -eu
include=$1 cc=$2 cxx=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0

compile() { # compiler, standard, language, file
    if ! "$1" "-std=$2" -x "$3" -Wall -Wextra -Werror -pedantic -fsyntax-only -I "$include" "$4"; then
        echo "$header does not compile alone as $2"
        exit 1
    fi
}

for path in "$include"/ferry/*.h; do
    header=ferry/$(basename "$path")
    printf '#include <%s>\n#include <%s>\nint main(void)\n{\n    return 0;\n}\n' "$header" "$header" >"$work/alone.c"
    compile "$cc" c11 c "$work/alone.c"
    if command -v "$cxx" >/dev/null; then
        compile "$cxx" c++17 c++ "$work/alone.c"
    fi
    n=$((n + 1))
done
echo "$n headers"
[ "$n" -ge 3 ] || { echo "too few headers in $include/ferry"; exit 1; }
if ! command -v "$cxx" >/dev/null; then
    echo "no C++ compiler ($cxx): the C++17 half was not checked"
    exit 77
fi
