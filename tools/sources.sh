#!/usr/bin/env bash
# Prints the repository's own files that match the patterns: those that git tracks and that exist, or, in a copy without
# git, all outside build folders. third_party/ holds files of others, as they came.
set -euo pipefail
cd "$(dirname "$0")/.."
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  git ls-files -- "$@" ":!third_party" | while IFS= read -r file; do [ -f "$file" ] && printf '%s\n' "$file"; done
else
  set -f
  for pattern in "$@"; do
    find . \( -name build -o -name out -o -name third_party -o -name '.*' ! -name . \) -prune -o -type f -name "$pattern" -print | sed 's,^\./,,'
  done
fi
