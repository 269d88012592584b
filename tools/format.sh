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
if [ -z "$check" ]; then
  clang-format -i "${files[@]}"
elif ! clang-format --dry-run --Werror "${files[@]}"; then
  echo "format: the files above differ from .clang-format; run make format" >&2
  exit 1
else
  echo "format: ${#files[@]} files are right"
fi
