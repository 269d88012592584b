#!/usr/bin/env bash
# Makes the source distribution, which pip builds where it is installed: tools/sdist.sh <folder for it>.
set -euo pipefail
mkdir -p "$1"
to=$(realpath "$1")
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
name=$("$python" -c 'import sys; from scikit_build_core.build import build_sdist; print(build_sdist(sys.argv[1]))' "$to" | tail -n 1)
echo "sdist: $to/$name, $(du -h "$to/$name" | cut -f1), which needs the compiler and the packages of tools/packages.txt where it is installed"
