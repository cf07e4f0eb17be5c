#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# auto on one host: nothing is opened behind the transport by which all PEs reach each other's memory; what a user names is.
# usage: auto.sh FERRY-RUN HELLO OTHER (a usable transport besides loopback)
set -u
unset FERRY_PLUGIN_PATH
run=$1 hello=$2 other=$3 bad=0
ask() {
    out=$(FERRY_TRANSPORT=$1 FERRY_LOG=info "$run" -n 2 "$hello" 2>&1) || { echo "$1 ended with $?"; echo "$out"; bad=1; }
}
has() { echo "$out" | grep -qF -- "$1" || { echo "not said: $1"; echo "$out"; bad=1; }; }
lacks() { ! echo "$out" | grep -qF -- "$1" || { echo "said: $1"; echo "$out"; bad=1; }; }

ask auto
has "$other (score"
has "transport loopback: all PEs are on this host, so no other is opened"
lacks "no PE needs it, closed"
ask "loopback,$other"
lacks "so no other is opened"
has "transport $other: no PE needs it, closed"
exit $bad
