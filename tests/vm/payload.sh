# SPDX-License-Identifier: Apache-2.0
# What is tested: the programs, plugins and libraries of a build folder as they lie there, under /ferry in the guest (their
# run paths are relative), and tests/vm/guest under /rig. Made anew for each run. Sourced by run.

payload_files="libferry.so.0 tools/ferry-run tools/ferry-info tools/ferry-perf tools/ferry-check examples/hello examples/moe_dispatch
    tests/api/test_order tests/api/test_data tests/api/test_narrow tests/api/test_collective
    tests/conformance/conformance tests/vm/vm_adders tests/vm/vm_chain tests/vm/vm_flood tests/vm/vm_stale
    tests/vm/vm_steady tests/vm/vm_victim tests/ibrc/ibrc_batches"

# make_payload BUILD OUT
make_payload() {
    local build=$1 root=$work/payload file
    mkdir -p "$root/rig" "$root/bin"
    for file in $payload_files $(cd "$build" && echo plugins/*.so); do
        if [ ! -f "$build/$file" ]; then
            say "$build has no $file; build it first, or name another folder with --build"
            return 1
        fi
        copy_with_libs "$root" "$build/$file" "/ferry/$file"
        strip --strip-debug "$root/ferry/$file"
    done
    for file in ${more//,/ }; do
        [ -f "$file" ] || file=$(command -v "$file") || { say "--add: no such program"; return 1; }
        copy_with_libs "$root" "$file" "/usr/bin/$(basename "$file")"
    done
    cp README.md "$root/ferry/"
    cp tests/expected/ibrc.json "$root/rig/"
    cp "$here/guest"/* "$here/victim.sh" "$root/rig/"
    cp "$here/guest/init" "$root/init"
    chmod 755 "$root/init" "$root"/rig/*
    pack "$root" "$2"
}
