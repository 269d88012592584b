#!/usr/bin/env bash
# Builds the benchmarks, makes the peers' environment, runs ours and theirs interleaved, then our own Google Benchmark
# programs, which are left out where one suite is asked for. Arguments go to run.py: benchmarks/run.sh --suite scan
set -euo pipefail
cd "$(dirname "$0")/.."

tools/build.sh bench "$(tools/jobs.sh)" all
benchmarks/setup.sh
.venv-bench/bin/python benchmarks/run.py --worker build/bench/bin/compare_worker "$@"
case " $* " in *" --suite"*) exit 0 ;; esac
mkdir -p out/bench
for program in build/bench/bin/bench_*; do
  [ -x "$program" ] || continue
  "$program" --benchmark_out="out/bench/${program##*/}.json" --benchmark_out_format=json
done
