#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Options in a man page and in --help are the same, with the same arguments; ferry-perf's page describes every test, and no other.
# Arguments: folder of the pages, then the tools.
set -eu
man=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
unset ARGP_HELP_FMT
rc=0

same() {
    [ -s "$work/left" ] || { echo "$1: nothing found to compare"; rc=1; }
    diff "$work/left" "$work/right" >"$work/diff" || { echo "$1, < is the tool and > is the page:"; cat "$work/diff"; rc=1; }
}

for tool; do
    name=$(basename "$tool")
    page=$man/$name.1
    "$tool" --help | sed -nE 's/^  (-., |    )(--)/\1\2/; s/^ +--/--/; /^(-., )?--/{s/  .*//; p}' | sort >"$work/left"
    sed -nE '/^\\fB\\-/{s/\\f[BIRP]//g; s/\\-/-/g; p}' "$page" | sort >"$work/right"
    same "options of $name"
    version=$("$tool" --version | sed 's/.* //')
    grep -q "^\.TH $(echo "$name" | tr a-z A-Z | sed 's/-/\\\\-/') 1 .*\"Ferry $version\"" "$page" ||
        { echo "$page: the heading does not name version $version"; rc=1; }
    if [ "$name" = ferry-perf ]; then
        "$tool" --list | sed 's/ .*//' | sort >"$work/left"
        # The tests are what the section TESTS has in bold as labels.
        sed -n '/^\.SH TESTS/,/^\.SH OPTIONS/p' "$page" | grep -A1 '^\.TP' | sed -n 's/^\.BR* //p' | tr -d ',"' |
            tr -s ' ' '\n' | sort >"$work/right"
        same "tests of $name"
    fi
done
exit $rc
