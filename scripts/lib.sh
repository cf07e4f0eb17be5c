# SPDX-License-Identifier: Apache-2.0
# What scripts/demo and scripts/test share: packages and the build. Sourced, not run.

packages="build-essential meson ninja-build pkg-config libcmocka-dev libsodium-dev libjansson-dev libibverbs-dev libhwloc-dev libfabric-dev libucx-dev python3 valgrind binutils groff-base iproute2 nftables spin abigail-tools"

# The packages of the list that are not installed.
missing_packages() {
    local p
    for p in "$@"; do
        dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || printf '%s ' "$p"
    done
}

# Installs what is missing when root; else says the one line to run. Machines without dpkg are taken as they are.
install_packages() {
    local missing
    command -v dpkg-query >/dev/null || return 0
    missing=$(missing_packages "$@")
    [ -z "$missing" ] && return 0
    if [ "$(id -u)" != 0 ]; then
        echo "missing packages; run:  sudo apt-get install -y $missing" >&2
        return 1
    fi
    echo "installing: $missing"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 && return 0
    apt-get update -qq >/dev/null || return 1
    # shellcheck disable=SC2086
    apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

# build DIR [meson options]: configures once, builds with two jobs.
build() {
    local dir=$1
    shift
    if [ ! -f "$dir/build.ninja" ]; then
        meson setup "$dir" "$@" >"$dir.log" 2>&1 || { cat "$dir.log" >&2; rm -rf "$dir"; return 1; }
        mv "$dir.log" "$dir/setup.log"
    fi
    ninja -C "$dir" -j2 >"$dir/build.log" 2>&1 || { tail -n 60 "$dir/build.log" >&2; return 1; }
}
