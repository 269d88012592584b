#!/usr/bin/env bash
# Makes .venv-bench, the environment of the peers (PyTorch's Python side, NumPy, JAX), from requirements.txt. Only the
# benchmarks need it. Does nothing when it is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=.venv-bench
requirements=benchmarks/requirements.txt
cpu_wheels=https://download.pytorch.org/whl/cpu
stamp=$environment/.ready

# Prints the first Python that JAX's pinned release takes and that can make an environment.
find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3.11 python3 /usr/bin/python3 python3.12 python3.13; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      printf '%s\n' "$candidate"
      return 0
    fi
  done
  return 1
}

wanted=$(sha256sum "$requirements" | cut -d' ' -f1)
if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

if [ ! -x "$environment/bin/python" ]; then
  python=$(find_python) || {
    echo "benchmarks: needs a python3 from 3.11 on with the modules venv and ensurepip; set PYTHON to name one" >&2
    exit 1
  }
  "$python" -m venv "$environment"
fi

# The CPU build of torch is a tenth of the other one's size: from pip's own indexes if they have it, else from PyTorch's.
pip=("$environment/bin/python" -m pip --disable-pip-version-check install --progress-bar off -q)
torch=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' "$requirements")
echo "benchmarks: installing $(sed -e 's/#.*//' "$requirements" | xargs) into $environment" >&2
"${pip[@]}" -r "$requirements" "torch==$torch+cpu" 2>/dev/null ||
  "${pip[@]}" -r "$requirements" "torch==$torch+cpu" --extra-index-url "$cpu_wheels" ||
  "${pip[@]}" -r "$requirements"
printf '%s\n' "$wanted" >"$stamp"
