#!/usr/bin/env bash
# Tests captures of CUDA tensors beside eager, by the torch of .venv: tools/test_gpu.sh <build folder>. DIPTYCH_PJRT_PLUGIN
# names XLA's plugin for CUDA. Without a GPU nothing is run, and the exit status says so.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH=$1/python
# Asked by NVML: a process that has begun to use CUDA can't judge in children.
if ! PYTORCH_NVML_BASED_CUDA_CHECK=1 .venv/bin/python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
  echo "test-gpu: not run: torch $(.venv/bin/python -c 'import torch; print(torch.__version__)') finds no GPU here" >&2
  exit 1
fi
status=0
.venv/bin/python -m pytest tests/python/gpu/on_cuda.py || status=1
DIPTYCH_TEST_DEVICE=cuda DIPTYCH_BACKEND=interpreter .venv/bin/python tests/python/suites/run.py "op_db + op_variants + op_transforms" || status=1
for suite in module_db hop_db autograd_function_db; do
  DIPTYCH_TEST_DEVICE=cuda DIPTYCH_BACKEND=interpreter .venv/bin/python "tests/python/suites/$suite.py" || status=1
done
if [ -n "${DIPTYCH_PJRT_PLUGIN:-}" ]; then
  DIPTYCH_TEST_DEVICE=cuda .venv/bin/python tests/python/suites/op_db.py --backend xla || status=1
else
  echo "test-gpu: XLA not run: DIPTYCH_PJRT_PLUGIN names no plugin for CUDA" >&2
fi
exit "$status"
