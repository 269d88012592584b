#!/usr/bin/env bash
# Builds a preset and runs every check on it: tools/test.sh <preset> <jobs>. Each check runs even if one before it failed,
# so that one run shows all that is wrong; the exit status is 0 only if all passed. Ctest's summary comes last, after what
# took how long.
#
# Of the many samples of fuzzers and databases a run takes a tenth, by the number of the commit, so that ten commits take
# them all; DIPTYCH_TEST_PART=3/10 names another one, and "all" takes all and writes the result to tests/whole_run.txt.
# ONLY=<expression> builds and runs what has such a name alone, as ctest -R takes it.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
preset=$1 jobs=$2 only=${ONLY:-}
ninja_log=build/$preset/.ninja_log report=build/$preset/tests.xml output=build/$preset/tests.log
earlier=$(stat -c %s "$ninja_log" 2>/dev/null || echo 0)
. tools/test_environment.sh || exit 1

failed=() stages=()
# timed <stage> <command>...: the command's status; says nothing of its own.
timed() {
  local name=$1 from=${EPOCHREALTIME/[.,]/} status=0
  shift
  "$@" || status=$?
  stages+=(--stage "$name=$(awk -v us=$((${EPOCHREALTIME/[.,]/} - from)) 'BEGIN {printf "%.1f", us / 1e6}')")
  return $status
}

# What the tests named by $only run, as targets; all without it.
targets() {
  [ -n "$only" ] || { echo all; return; }
  tools/build.sh "$preset" "$jobs" --configure-only
  ctest --preset "$preset" -R "$only" --show-only=json-v1 | python3 tools/test_targets.py "build/$preset"
}

build() {
  local wanted
  wanted=$(targets) || { echo "test: no test has a name like '$only'" >&2; return 1; }
  # shellcheck disable=SC2086  # targets are words
  [ -z "$wanted" ] || tools/build.sh "$preset" "$jobs" $wanted
}

# A build folder without times of its own takes those of tests/costs.txt, in ctest's form, so that the longest tests begin
# first in a cold run, too. To renew it: awk '$3 > 4' build/ci/Testing/Temporary/CTestCostData.txt | sort -k3nr > tests/costs.txt
seed_costs() {
  local costs=build/$preset/Testing/Temporary/CTestCostData.txt
  [ -f "$costs" ] || { mkdir -p "${costs%/*}" && cp tests/costs.txt "$costs"; }
}

# A test whose filter matches no case fails, and so does a run without tests: neither is a success.
run_tests() {
  rm -f "$report"
  seed_costs
  ctest --preset "$preset" -j "$jobs" ${only:+-R "$only"} --no-tests=error --test-output-size-passed 65536 \
    --output-junit "$PWD/$report" 2>&1 | tee "$output"
}

say_times() { python3 tools/times.py "${stages[@]}" --ninja-log "$ninja_log" --since "$earlier" --tests "$report"; }

# What ctest says at its end: the summary, and the names of those that failed.
summary() { sed -n '/^[0-9]*% tests passed/,$p' "$output"; }

# The last run of everything: what it was run on, and how it ended.
note_whole_run() {
  local changed
  changed=$(git status --porcelain --untracked-files=no 2>/dev/null | grep -v ' tests/whole_run.txt$')
  {
    echo "commit: $(git rev-parse HEAD)${changed:+, with changes}"
    echo "date: $(date -u +%F)"
    echo "cpu: $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)"
    summary
    echo "checks: ${failed[*]:-everything passed}"
  } >tests/whole_run.txt.new && mv tests/whole_run.txt.new tests/whole_run.txt
}

rm -f "$report"
timed build build ||
  { say_times; echo "test: the build failed, so no test was run" >&2; exit 1; }
timed lint tools/lint.sh || failed+=("lint")
timed tests run_tests || failed+=("ctest")

if [ "$DIPTYCH_TEST_PART" != all ]; then
  echo "test: part $DIPTYCH_TEST_PART of the samples that rotate; DIPTYCH_TEST_PART=$DIPTYCH_TEST_PART make test repeats it, make test-all takes all"
elif [ -z "$only" ]; then
  note_whole_run
fi
say_times
summary
if [ ${#failed[@]} -gt 0 ]; then
  echo "test: FAILED: ${failed[*]}" >&2
  exit 1
fi
echo "test: everything passed (preset $preset)"
