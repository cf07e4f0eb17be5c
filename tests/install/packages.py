#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Everything that is installed belongs to a package: debian/*.install names it, itself or a folder above it. (`scripts/package` says
# so, too, after a whole build.) usage: packages.py MESON BUILD SOURCE PREFIX LIBDIR
import fnmatch
import glob
import json
import os
import subprocess
import sys


def named(path, patterns):
    """By a pattern that fits the path, or a folder that it lies in."""
    while path:
        if any(fnmatch.fnmatchcase(path, p) for p in patterns):
            return True
        path = os.path.dirname(path)
    return False


def main():
    meson, build, source, prefix, libdir = sys.argv[1:]
    installed = json.loads(subprocess.run([meson, "introspect", "--installed", build], check=True, stdout=subprocess.PIPE).stdout)
    patterns = []
    for file in glob.glob(os.path.join(source, "debian", "*.install")):
        with open(file, encoding="utf-8") as lines:
            patterns += [line.strip() for line in lines if line.strip()]
    lost = []
    for path in installed.values():
        path = os.path.relpath(path, prefix)
        if path.startswith(libdir + "/"):
            path = "lib/any" + path[len(libdir):]
        if not named("usr/" + path, patterns):
            lost.append(path)
    if not installed or not patterns:
        sys.exit("nothing is installed, or there are no packages")
    if lost:
        sys.exit("no package has: %s" % ", ".join(sorted(lost)))
    print("%d installed files, each in a package" % len(installed))


main()
