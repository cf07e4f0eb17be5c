#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the documents name is there: files that they link to, variables, and options of ferry-info. usage: docs.sh SOURCE FERRY-INFO
info=$(realpath "$2")
cd "$1" || exit 1
bad=0
help=$(mktemp) || exit 1

complain() {
    echo "$*"
    bad=1
}

for page in README.md CONTRIBUTING.md docs/*.md plugins/*/README.md plugins/*/*/README.md tests/*/README.md; do
    [ -f "$page" ] || continue
    for link in $(grep -o '](\([^)# ]*\)[)#]' "$page" | sed 's/^](//; s/[)#]$//'); do
        case $link in
            http://* | https://* | '') continue ;;
        esac
        [ -e "$(dirname "$page")/$link" ] || complain "$page: links to $link, which is not there"
    done
    for name in $(grep -o 'FERRY_\(IBRC\|LIBFABRIC\|LOOPBACK\|UCX\|CHAOS\|COUNT\)_[A-Z0-9_]*[A-Z0-9]' "$page" | sort -u); do
        grep -q "$name\b" docs/configuration.md || complain "$page: there is no variable $name"
    done
done
for name in $(grep -o 'FERRY_[A-Z0-9_]*[A-Z0-9]' docs/deploy-infiniband.md | sort -u); do
    grep -q "$name\b" docs/configuration.md || grep -rq "$name\b" include || complain "docs/deploy-infiniband.md: what is $name?"
done
"$info" --help >"$help" || complain "ferry-info --help fails"
for option in $(grep -ho 'ferry-info --[a-z]*' README.md docs/*.md plugins/*/README.md | sed 's/^ferry-info //' | sort -u); do
    grep -q -e "$option\b" "$help" || complain "ferry-info has no $option"
done
rm -f "$help"
exit $bad
