#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The man pages have no mistake that groff warns of, and no line of theirs is too wide for a terminal. Arguments: the pages.
set -eu
command -v groff >/dev/null || exit 77
rc=0
for page; do
    said=$(groff -man -ww -rLL=80n -Tascii "$page" 2>&1 >/dev/null) || rc=1
    [ -z "$said" ] || { echo "$page: $said"; rc=1; }
    wide=$(groff -man -rLL=80n -Tascii -P-cbou "$page" | grep -E '^.{81,}' || true)
    [ -z "$wide" ] || { echo "$page: too wide: $wide"; rc=1; }
    for section in NAME SYNOPSIS DESCRIPTION OPTIONS 'EXIT STATUS' EXAMPLES 'SEE ALSO'; do
        grep -q "^\.SH $section\$" "$page" || { echo "$page: no section $section"; rc=1; }
    done
done
exit $rc
