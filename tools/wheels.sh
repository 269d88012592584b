#!/usr/bin/env bash
# Makes a wheel for each Python, which holds a library for each torch: tools/wheels.sh <folder for the wheels> <jobs>
# "<torch>..." <python>... The environments lie in the user's cache folder, as those of tools/check_torch.py.
set -euo pipefail
cd "$(dirname "$0")/.."
to=$1 jobs=$2 torches=$3
shift 3

own=$(.venv/bin/python -c 'import sys; print("py%d.%d" % sys.version_info[:2])')
for name in "$@"; do
  python=$(command -v "$name") || { echo "wheels: there is no $name; name those that are there: PYTHONS=\"/path/to/python3.13\"" >&2; exit 1; }
  tag=$("$python" -c 'import sys; print("py%d.%d" % sys.version_info[:2])')
  folders=()
  for torch in $torches; do
    tools/check_torch.py "$torch" --python "$python" --jobs "$jobs" --stages install,package
    folders+=("build/torch-$torch$([ "$tag" = "$own" ] || echo "-$tag")")
    environment=${XDG_CACHE_HOME:-$HOME/.cache}/diptych/torch/$torch-$tag
  done
  PYTHON=$environment/bin/python tools/wheel.sh "${folders[0]}" "$to" "${folders[@]:1}"
done
