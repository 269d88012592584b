#!/usr/bin/env bash
# Prints the repository's files that match the patterns: those that git tracks and that exist, or, in a copy without git,
# all outside build folders.
set -euo pipefail
cd "$(dirname "$0")/.."
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  git ls-files -- "$@" | while IFS= read -r file; do [ -f "$file" ] && printf '%s\n' "$file"; done
else
  set -f
  for pattern in "$@"; do
    find . \( -name build -o -name out -o -name '.*' ! -name . \) -prune -o -type f -name "$pattern" -print | sed 's,^\./,,'
  done
fi
