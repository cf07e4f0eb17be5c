# SPDX-License-Identifier: Apache-2.0
# What scripts/demo and scripts/test share: packages and the build. Sourced, not run.

# Launchers for tests/cluster: some packages have daemons, which install_packages keeps from being started.
cluster_packages="openmpi-bin libopenmpi-dev mpich libmpich-dev slurmctld slurmd slurm-client munge"
packages="build-essential cmake meson ninja-build pkg-config libcmocka-dev libsodium-dev libjansson-dev libibverbs-dev libhwloc-dev libfabric-dev libucx-dev libpmix-dev python3 valgrind binutils groff-base iproute2 nftables spin abigail-tools systemtap-sdt-dev"

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
    # shellcheck disable=SC2086
    without_daemons apt_install $missing
}

apt_install() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 && return 0
    apt-get update -qq >/dev/null || return 1
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# Runs a command during which packages start nothing: what is tested starts its own, and stops it.
without_daemons() {
    local policy=/usr/sbin/policy-rc.d rc=0
    if [ -e $policy ]; then
        "$@"
        return
    fi
    printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy
    "$@" || rc=$?
    rm -f $policy
    return $rc
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
