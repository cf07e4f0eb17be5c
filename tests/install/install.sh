#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs into a folder, looks at what lies where, builds a program and a plugin with pkg-config, and runs the program over the
# installed plugins with no variable set.
# Arguments: meson, build folder, source root, prefix, libdir, C compiler, sanitizer or "none".
set -eu
meson=$1 build=$2 root=$3 prefix=$4 libdir=$5 cc=$6 sanitize=$7
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
dest=$work/dest
lib=$dest$prefix/$libdir
flags="-std=c11 -Wall -Wextra -Werror"
[ "$sanitize" = none ] || flags="$flags -fsanitize=$sanitize"

fail() {
    echo "$*"
    find "$dest" -type f -o -type l | sort
    exit 1
}
there() {
    for path; do
        [ -e "$path" ] || fail "not installed: ${path#"$dest"}"
    done
}

"$meson" install --no-rebuild --quiet -C "$build" --destdir "$dest" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

there "$lib/libferry.so.0" "$lib/libferry.so" "$lib/ferry/plugins-v1/loopback.so" "$lib/pkgconfig/ferry.pc" \
    "$lib/pkgconfig/ferry-plugin.pc" "$lib/ferry/check/mutant.so"
readelf -d "$lib/libferry.so.0" | grep -q 'SONAME.*\[libferry.so.0\]' || fail "the soname is not libferry.so.0"
for path in "$root"/include/ferry/*.h; do
    there "$dest$prefix/include/ferry/$(basename "$path")"
done
for path in "$build"/plugins/*.so; do
    there "$lib/ferry/plugins-v1/$(basename "$path")"
done
for path in "$build"/bootstraps/*.so; do
    [ ! -f "$path" ] || there "$lib/ferry/bootstraps-v1/$(basename "$path")"
done
for path in "$build"/tools/ferry-*; do
    if [ -f "$path" ] && [ -x "$path" ]; then
        there "$dest$prefix/bin/$(basename "$path")"
    fi
done
unset LD_LIBRARY_PATH
for tool in ferry-run ferry-info ferry-perf ferry-check ferry-top; do
    "$dest$prefix/bin/$tool" --version >"$work/log" 2>&1 || fail "$tool does not start where it was installed: $(cat "$work/log")"
done
[ -z "$(find "$dest" -name '*.a' -o -path '*tests*')" ] || fail "something was installed that is of no use there"

export PKG_CONFIG_PATH="$lib/pkgconfig"
[ "$(pkg-config --variable=plugindir ferry-plugin)" = "$prefix/$libdir/ferry/plugins-v1" ] || fail "wrong plugindir"
[ "$(pkg-config --variable=abi ferry-plugin)" = 1 ] || fail "wrong abi"
[ "$(pkg-config --modversion ferry)" = "$(pkg-config --modversion ferry-plugin)" ] || fail "two versions"

export PKG_CONFIG_SYSROOT_DIR="$dest"
# shellcheck disable=SC2046,SC2086
"$cc" $flags "$root/tests/install/program.c" -o "$work/program" $(pkg-config --cflags --libs ferry)
for name in $(env | sed -n 's/^\(FERRY_[A-Z_0-9]*\)=.*/\1/p'); do
    unset "$name"
done
said=$("$dest$prefix/bin/ferry-info") || fail "the installed ferry-info failed: $said"
case $said in *"$lib/ferry/plugins-v1/loopback.so"*) ;; *) fail "the installed ferry-info does not see loopback: $said" ;; esac
said=$(LD_LIBRARY_PATH="$lib" "$work/program") || fail "the program failed: $said"
[ "$said" = "$(pkg-config --modversion ferry) 0 of 1: FERRY_OK" ] || fail "the program said: $said"
echo "$said"

mkdir "$work/cmake"
cat >"$work/cmake/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.18)
project(small C)
find_package(Ferry 0.1 REQUIRED)
add_executable(program "$root/tests/install/program.c")
target_link_libraries(program Ferry::ferry)
add_library(minimal MODULE "$root/examples/transport-minimal/minimal.c")
target_link_libraries(minimal Ferry::plugin)
target_compile_definitions(minimal PRIVATE _GNU_SOURCE)
file(WRITE "\${CMAKE_BINARY_DIR}/plugindir" "\${Ferry_PLUGIN_DIR}")
END
more=""
[ "$sanitize" = none ] || more="-fsanitize=$sanitize"
cmake -S "$work/cmake" -B "$work/cmake/build" -DCMAKE_PREFIX_PATH="$dest$prefix" -DCMAKE_LIBRARY_ARCHITECTURE="${libdir#lib/}" \
    -DCMAKE_C_FLAGS="$more" >"$work/log" 2>&1 && cmake --build "$work/cmake/build" >>"$work/log" 2>&1 || fail "with CMake: $(cat "$work/log")"
said=$(LD_LIBRARY_PATH="$lib" "$work/cmake/build/program") || fail "the program that CMake built failed: $said"
[ "$(realpath "$(cat "$work/cmake/build/plugindir")")" = "$(realpath "$lib/ferry/plugins-v1")" ] || fail "CMake: wrong plugin folder"
sed -i 's/Ferry 0.1/Ferry 9.1/' "$work/cmake/CMakeLists.txt"
if cmake -S "$work/cmake" -B "$work/cmake/again" -DCMAKE_PREFIX_PATH="$dest$prefix" -DCMAKE_LIBRARY_ARCHITECTURE="${libdir#lib/}" \
    >"$work/log" 2>&1; then
    fail "CMake takes this version for another one"
fi
echo "with CMake: $said"

minimal=$root/examples/transport-minimal/minimal.c
there "$minimal"
# shellcheck disable=SC2046
"$cc" -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -shared -fPIC -fvisibility=hidden "$minimal" -o "$work/minimal.so" \
    $(pkg-config --cflags ferry-plugin) || fail "the minimal transport does not build with ferry-plugin.pc"
said=$(FERRY_TRANSPORT="$work/minimal.so" LD_LIBRARY_PATH="$lib" "$work/program") || fail "over minimal.so: $said"
echo "over minimal.so: $said"
