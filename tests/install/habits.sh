#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Jobs where containers and services put them: without privileges, in namespaces of their own, with a small
# /dev/shm, low limits, and a root that cannot be written. Exit 77 where this machine lets nobody make namespaces.
# usage: habits.sh FERRY-RUN HELLO LOOPBACK
set -eu
run=$(realpath "$1") hello=$(realpath "$2") loopback=$(realpath "$3")
unset FERRY_TRANSPORT || true
work=$(mktemp -d)
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT

fail() {
    echo "$1"
    cat "$work/log"
    exit 1
}
# Four PEs greet each other. $1: what is tested; the rest: how to start it.
greets() {
    what=$1
    shift
    "$@" "$run" -n 4 "$hello" >"$work/log" 2>&1 || fail "$what: it failed"
    [ "$(grep -c 'got: hello from pe' "$work/log")" = 4 ] || fail "$what: somebody got nothing"
    echo "$what: works"
}

own="unshare"
[ "$(id -u)" = 0 ] || own="unshare -Ur"
# shellcheck disable=SC2086
if ! $own -m true 2>"$work/log"; then
    echo "this machine lets nobody make namespaces: $(cat "$work/log")"
    exit 77
fi
export FERRY_TRANSPORT="$loopback"

# Nobody, with no capability; what it runs may lie where only root may look, so that is copied.
if [ "$(id -u)" = 0 ]; then
    cp "$run" "$hello" "$loopback" "$work"
    cp -L "$(ldd "$hello" | sed -n 's/.*libferry.so.0 => \([^ ]*\).*/\1/p')" "$work/libferry.so.0"
    mine="setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all"
    # shellcheck disable=SC2086
    LD_LIBRARY_PATH="$work" FERRY_TRANSPORT="$work/$(basename "$loopback")" $mine \
        "$work/$(basename "$run")" -n 4 "$work/$(basename "$hello")" >"$work/log" 2>&1 || fail "without privileges: it failed"
    [ "$(grep -c 'got: hello from pe' "$work/log")" = 4 ] || fail "without privileges: somebody got nothing"
    echo "without privileges: works"
fi

# shellcheck disable=SC2086
greets "own pid and network namespace" $own --pid --fork --mount-proc --net sh -c 'ip link set lo up && exec "$@"' sh
# shellcheck disable=SC2086
greets "/dev/shm of 64 MiB" $own -m sh -c 'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$@"' sh
# shellcheck disable=SC2086
greets "no /dev/shm" $own -m sh -c 'mount -t tmpfs -o size=4k,ro tmpfs /dev/shm && exec "$@"' sh
greets "64 KiB of locked memory" sh -c 'ulimit -l 64 && exec "$@"' sh
greets "256 open files" sh -c 'ulimit -n 256 && exec "$@"' sh
# shellcheck disable=SC2086
greets "a root that cannot be written" $own -m sh -c 'mount --bind / / && mount -o remount,bind,ro / && cd / && ! touch /tmp/ferry-habit 2>/dev/null; exec "$@"' sh

# More processes than files: refused, with the limit, and at once.
status=0
sh -c 'ulimit -n 256 && exec "$@"' sh "$run" -n 200 "$hello" >"$work/log" 2>&1 || status=$?
[ $status != 0 ] && grep -qi 'open files' "$work/log" || fail "200 processes with 256 open files: status $status, and no word of the limit"
echo "256 open files for 200 processes: $(grep -i -m 1 'open files' "$work/log")"

