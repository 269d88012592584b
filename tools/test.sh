#!/usr/bin/env bash
# Builds a preset and runs every check on it: tools/test.sh <preset> <jobs>. Each check runs even if one before it failed,
# so that one run shows all that is wrong; the exit status is 0 only if all passed. Ctest's summary comes last, after what
# took how long.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
preset=$1 jobs=$2
ninja_log=build/$preset/.ninja_log report=build/$preset/tests.xml output=build/$preset/tests.log
earlier=$(stat -c %s "$ninja_log" 2>/dev/null || echo 0)

failed=() stages=()
# timed <stage> <command>...: the command's status; says nothing of its own.
timed() {
  local name=$1 from=${EPOCHREALTIME/[.,]/} status=0
  shift
  "$@" || status=$?
  stages+=(--stage "$name=$(awk -v us=$((${EPOCHREALTIME/[.,]/} - from)) 'BEGIN {printf "%.1f", us / 1e6}')")
  return $status
}

# The GoogleTest programs list their cases while they are built; none listed would be a broken build and not a success.
run_tests() {
  rm -f "$report"
  ctest --preset "$preset" --no-tests=error --test-output-size-passed 65536 --output-junit "$PWD/$report" 2>&1 | tee "$output"
}

say_times() { python3 tools/times.py "${stages[@]}" --ninja-log "$ninja_log" --since "$earlier" --tests "$report"; }

rm -f "$report"
timed build tools/build.sh "$preset" "$jobs" all ||
  { say_times; echo "test: the build failed, so no test was run" >&2; exit 1; }
timed lint tools/lint.sh || failed+=("lint")
timed tests run_tests || failed+=("ctest")

say_times
sed -n '/^[0-9]*% tests passed/,$p' "$output" # the summary again, and the names of those that failed
if [ ${#failed[@]} -gt 0 ]; then
  echo "test: FAILED: ${failed[*]}" >&2
  exit 1
fi
echo "test: everything passed (preset $preset)"
