#!/usr/bin/env bash
# Builds a preset and runs every check on it: tools/test.sh <preset> <jobs>. Each check runs even if one before it failed,
# so that one run shows all that is wrong; the exit status is 0 only if all passed. Ctest's summary comes last.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
preset=$1 jobs=$2

failed=()
tools/build.sh "$preset" "$jobs" all || { echo "test: the build failed, so no test was run" >&2; exit 1; }
tools/lint.sh || failed+=("lint")
# The GoogleTest programs list their cases while they are built; none listed would be a broken build and not a success.
ctest --preset "$preset" --no-tests=error || failed+=("ctest")

if [ ${#failed[@]} -gt 0 ]; then
  echo "test: FAILED: ${failed[*]}" >&2
  exit 1
fi
echo "test: everything passed (preset $preset)"
