#!/usr/bin/env bash
# Runs every benchmark program of a build folder, one after another: tools/bench.sh build/bench [Google Benchmark's options]
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
shift
mapfile -t programs < <(find "$folder/bin" -maxdepth 1 -name 'bench_*' -type f -perm -u+x | sort)
[ ${#programs[@]} -gt 0 ] || { echo "bench: no bench_* program in $folder/bin" >&2; exit 1; }
for program in "${programs[@]}"; do
  echo "== ${program##*/}"
  "$program" "$@"
done
