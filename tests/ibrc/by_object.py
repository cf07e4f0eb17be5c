#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints how many instructions a callgrind profile has in the objects whose names match. usage: by_object.py PROFILE PATTERN
callgrind_annotate lists what was inlined from headers without the object that it is in; the profile itself knows."""
import re
import sys


def name(text, known):
    """Callgrind writes a name once, with a number, and then the number alone."""
    number, _, rest = text.partition(" ")
    if not number.startswith("("):
        return text
    if rest:
        known[number] = rest
    return known[number]


def count(lines, pattern):
    known, inside, callee, total = {}, False, False, 0
    for line in lines:
        if line.startswith("ob="):
            inside = re.search(pattern, name(line[3:].rstrip(), known)) is not None
        elif line.startswith("cob="):
            name(line[4:].rstrip(), known)
        elif line.startswith("calls="):
            callee = True  # the next line is what the callee cost, which is counted where it was executed
        elif re.match(r"[0-9+*-]", line):
            if inside and not callee:
                total += int(line.split()[-1])
            callee = False
    return total


with open(sys.argv[1]) as profile:
    print(count(profile, sys.argv[2]))
