# Sourced by what runs the tests: which part of the samples that rotate they take, and what makes them wait less.
commits=$(git rev-list --count HEAD 2>/dev/null || echo 0)
export DIPTYCH_TEST_PART=${DIPTYCH_TEST_PART:-$((commits % 10))/10}
# How XLA makes code of its programs is not what a part tests: without LLVM's optimizations and the emitters that go
# through MLIR they compile in a third of the time.
[ "$DIPTYCH_TEST_PART" = all ] || export XLA_FLAGS=${XLA_FLAGS:---xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false}
# Tests run side by side: threads that spin while they wait take a tenth of the time from those of another one.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
