#!/usr/bin/env bash
# The checks that need no build: layers, names of classes, format, sizes. All of them run; any failure fails.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
python=.venv/bin/python
status=0
"$python" tools/check_layers.py || status=1
"$python" tools/check_python_layers.py || status=1
"$python" tools/check_names.py || status=1
tools/format.sh --check || status=1
"$python" tools/sz.py || status=1
exit $status
