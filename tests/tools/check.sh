#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ferry-check as a user runs it: results in all three forms, a failure that says how to play it again, messages.
# usage: check.sh FERRY-CHECK BROKEN.so FERRY-RUN FOLDER-OF-TESTS-IN-THE-BUILD
set -u
check=$1 broken=$2 run=$3 tests=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
unset FERRY_HOOKS FERRY_DIRECT TEST_SCALE

complain() {
    echo "$*"
    cat "$work/out"
    bad=1
}

# STATUS TEXT ARGUMENT ...: what it prints has a line with TEXT.
expect() {
    wanted=$1 text=$2
    shift 2
    "$check" "$@" >"$work/out" 2>&1
    status=$?
    [ $status = "$wanted" ] || complain "ferry-check $*: status $status instead of $wanted"
    grep -q -e "$text" "$work/out" || complain "ferry-check $*: no line with: $text"
}

expect 0 'PASS: loopback keeps L2 L4' --rule R26 --level L2..L4 --seeds 2 --json "$work/json" --junit "$work/xml"
python3 - "$work/json" "$work/xml" <<'PY' >"$work/out" 2>&1 || complain "the files are not as they should be"
import hashlib, json, sys, xml.etree.ElementTree as tree
b = json.load(open(sys.argv[1]))
r = b["results"]
assert [(x["level"], x.get("seed")) for x in r] == [("L2", None), ("L2", None), ("L4", 1), ("L4", 2)], r
assert all(x["status"] == "pass" and x["reference"] == "docs/semantics.md#atomics" for x in r), r
assert b["plugin"]["name"] == "loopback" and b["capabilities"]["get"] == "yes" and b["seeds"] == [1, 2]
assert b["sha256"] == hashlib.sha256(open(b["plugin"]["path"], "rb").read()).hexdigest()
assert b["devices"] and all(x["what"] and x["state"] == "ok" and x["found"] for x in b["devices"]), b["devices"]
assert b["environment"] == {} and all(x["percent"] == {"L2": 5, "L4": 2}[x["level"]] for x in r)
assert b["host"]["kernel"] and b["kit"]["version"] and b["all"]["pass"] == 4 and b["levels"]["L4"]["pass"] == 2
cases = tree.parse(sys.argv[2]).getroot().findall("testsuite/testcase")
assert [c.get("classname") for c in cases] == ["L2.kinds"] * 2 + ["L4.kinds"] * 2, cases
PY

# What is opened does not become the output that the caller has closed.
"$check" --rule R26.1 --level L2 --json "$work/json" >&- 2>"$work/out"
[ $? = 1 ] && grep -q 'cannot write the output' "$work/out" || complain "ferry-check with a closed output does not say so"
python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$work/json" || complain "the output is in the file of --json"
expect 64 'give it alone' --mutants --rule R10
expect 64 'give it alone' --mutants loopback
expect 64 'give it alone' --mutants --json "$work/json"

export BREAK=cswap-old LD_PRELOAD="$broken"
expect 1 '^FAIL R26.1 compare_swap returns' --rule R26.1 --level L2 --json "$work/json" --junit "$work/xml"
for text in '  done:    as it is, 4 PEs as threads' '  seen:    rules_kinds.c:' '  allowed: .*semantics.md#atomics' '^FAIL: loopback keeps none'; do
    grep -q "$text" "$work/out" || complain "the failure has no line with: $text"
done
grep -q '<failure message="[0-9]* expectations failed' "$work/xml" || complain "the failure is not in the JUnit file"
again=$(sed -n 's/^  again:   ferry-check //p' "$work/out" | head -n 1)
[ "$again" = "loopback --rule R26.1 --level L2 --pes 4" ] || complain "it is to be played again by: $again"
# shellcheck disable=SC2086
expect 1 '^FAIL R26.1' $again
FERRY_BOUNCE_SIZE=64K UCX_LOG_FILE="it's" FERRY_ID=secret TEST_SCALE=1 FERRY_HOOKS='' expect 1 'done: .*, 1 percent' --rule R26.1 --level L4 \
    --seeds 1 --seed 5 --deadline 77 --channels 9 --json "$work/json" --junit "$work/xml"
grep -q secret "$work/json" && complain "the secret of a job is in the bundle"
PATH=$(dirname "$check"):$PATH bash -c "$(sed -n 's/^  again:   //p' "$work/out")" >"$work/again" 2>&1
[ $? = 1 ] && grep -q '^FAIL R26.1' "$work/again" || complain "the command of the failure does not play it again"
[ "$(grep '^  done:' "$work/out")" = "$(grep '^  done:' "$work/again")" ] || complain "played again, it says something else: $(grep '^  done:' "$work/again")"
for text in "UCX_LOG_FILE='it'.''s' " 'FERRY_BOUNCE_SIZE=64K ' "FERRY_HOOKS='' " 'ferry-check loopback --rule R26.1 --level L4 --seed 5 --seeds 1 --pes 4 --channels 9 --deadline 77$'; do
    grep -q "^  again:   .*$text" "$work/out" || complain "the command to play it again has no: $text"
done
echo '[{"rule": "R26.1", "cause": "old values are guessed"}]' >"$work/known"
expect 0 '^KNOWN R26.1 .*: old values are guessed' --rule R26.1 --level L2 --expected "$work/known"
unset BREAK LD_PRELOAD
expect 1 'lists it as failing: old values are guessed' --rule R26.1 --level L2 --expected "$work/known"
grep -q "again: .* --expected $work/known$" "$work/out" || complain "the list that makes it fail is not in the command to play it again"

expect 0 '^PASS: loopback keeps L2' --rule R1.1 --level L2 --pes 2 --launch "$run -n 2" --json "$work/json"
grep -q '"launch": ".* -n 2"' "$work/json" || complain "the bundle does not say what started the PEs"
expect 1 "R1.1 .*--launch '.* -n 3'" --rule R1.1 --level L2 --pes 2 --launch "$run -n 3"
expect 1 'no-launcher ended with status 127' --rule R1.1 --level L2 --launch no-launcher
CHECK_STAGE=/nowhere expect 1 'cannot open what its parent shares'
expect 0 'stored in' --rule R60.5 --level L6 --baseline "$work/speed"
echo 'somebody: else' >"$work/other"
expect 1 "seen: .*--baseline '$work/other' has no stored figures, and is left as it is" --rule R60.5 --level L6 --baseline "$work/other"
[ "$(cat "$work/other")" = 'somebody: else' ] || complain "a file that is no baseline was written over: $(cat "$work/other")"
expect 1 "seen: .*--baseline '/nowhere/speed' cannot be written: No such file" --rule R60.5 --level L6 --baseline /nowhere/speed
sed 's/: .*[0-9]/: 1000000/' "$work/speed" >"$work/slower"
expect 0 'put of 8 bytes: .* times' --rule R60.5 --level L6 --baseline "$work/slower"
sed 's/: .*[0-9]/: 0.001/' "$work/speed" >"$work/faster"
expect 1 'put of 8 bytes: .* times, stored 0.0 times' --rule R60.5 --level L6 --baseline "$work/faster"
FERRY_HOOKS=fault FERRY_FAULT_NTH=0 expect 1 'the option nth of fault is 0' --rule R1.1 --level L2
FERRY_HOOKS=fault FERRY_FAULT_CALL=rma expect 1 'call 1 of rma failed, as it was asked to' --rule R1.1 --level L2
expect 0 'R26.1 .*not run: budget: ' --rule R26.1 --level L2 --seconds 0.000001
grep -q '^PASS: loopback keeps none of these levels, .*; 2 not run$' "$work/out" || complain "what was not run is said to be kept"
expect 0 '^n/a .*R3.1 .*needs more PEs' --rule R3.1 --level L2 --pes 2 --verbose
expect 1 'transport nonesuch cannot be used: ' nonesuch
expect 1 'transport .*/no.so cannot be used: ' ./no.so
for name in route/othermajor:'it speaks transport ABI' route/nosymbol:'it has no symbol ferry_plugin_v1' route/tiny:'is malformed' \
    tools/crashes:'ended the process by signal 11' tools/ends:'ended with status 0'; do
    expect 1 "transport .*/${name%%:*}.so cannot be used: .*${name#*:}" "$tests/${name%%:*}.so"
done
expect 1 'transport .* cannot be used: it did not answer within 1 s' "$tests/tools/hangs.so" --deadline 1
expect 1 'transport chaos cannot be used: it is a hook' chaos
expect 1 'transport .* cannot be used: it is not a shared object' "$0"
expect 64 'the transport has an empty name' ''
expect 0 '^| R9.1 | L4 ' --list --rule R9
[ "$(wc -l <"$work/out")" = 1 ] || complain "--list --rule lists others, too"
expect 1 'cannot write .*/nowhere/json' --rule R26.1 --level L2 --json /nowhere/json
expect 1 'cannot write .*/nowhere/xml' --rule R26.1 --level L2 --junit /nowhere/xml
for place in '' "$work" "$work/$(printf '%0300d' 0)"; do
    expect 1 "cannot write '$place'" --rule R26.1 --level L2 --json "$place"
    grep -q 'R26.1\|PASS' "$work/out" && complain "it plays, though there is no place for its results: '$place'"
done
"$check" --list >/dev/full 2>"$work/out" && complain "output that cannot be written is no failure"
grep -q 'cannot write the output' "$work/out" || complain "it does not say that its output cannot be written"
expect 64 "no rule 'R99';" --rule R1,R99
expect 64 "no rule 'R60' in the levels" --rule R60
expect 64 'not a number from 0 to 1000000000000' --seed 99999999999999999999
for percent in '' soon -5 0 99999999999999999999; do
    TEST_SCALE=$percent expect 64 "TEST_SCALE is '$percent', which is not a number of percent" --rule R26.1 --level L2
done
expect 64 'neither a level' --level L9
expect 64 'neither a level' --level L3..L1
expect 64 'not a number from 1 to 64' --pes 65
expect 64 'no time in seconds' --seconds soon
expect 64 'one transport at a time' loopback ibrc
exit $bad
