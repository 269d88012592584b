#!/usr/bin/env bash
# Builds the benchmarks, makes the peers' environment, runs ours and theirs interleaved, then our own Google Benchmark
# programs. Arguments go to run.py: benchmarks/run.sh 'call/*' --rounds 9
set -euo pipefail
cd "$(dirname "$0")/.."

tools/build.sh bench "$(tools/jobs.sh)" all
benchmarks/setup.sh
.venv-bench/bin/python benchmarks/run.py --worker build/bench/bin/compare_worker "$@"
mkdir -p out/bench
for program in build/bench/bin/bench_*; do
  [ -x "$program" ] || continue
  "$program" --benchmark_out="out/bench/${program##*/}.json" --benchmark_out_format=json
done
