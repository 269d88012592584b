#!/usr/bin/env bash
# Formats the repository's C++ files in place; with --check it changes nothing and fails if a file would change.
# Files named after the options are taken instead of all.
set -euo pipefail
cd "$(dirname "$0")/.."
check=
if [ "${1:-}" = --check ]; then check=1; shift; fi

if [ $# -gt 0 ]; then
  files=("$@")
else
  mapfile -t files < <(tools/sources.sh '*.h' '*.cpp')
fi
# each_core <options of clang-format>: all files, as many at once as there are cores.
each_core() { printf '%s\0' "${files[@]}" | xargs -0 -n 50 -P "$(nproc)" clang-format "$@"; }

if [ -z "$check" ]; then
  each_core -i
elif ! each_core --dry-run --Werror; then
  echo "format: the files above differ from .clang-format; run make format" >&2
  exit 1
else
  echo "format: ${#files[@]} files are right"
fi
