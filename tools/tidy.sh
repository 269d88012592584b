#!/usr/bin/env bash
# Runs clang-tidy on the C++ sources that differ from the main branch, or on the files named:
# tools/tidy.sh <build folder with compile_commands.json> [file.cpp ...]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:?usage: tools/tidy.sh <build folder> [file.cpp ...]}
shift

# What differs from where this branch left the main one, committed or not. On main itself that is the last commit's files.
changed_files() {
  local main=origin/main base
  git rev-parse --verify -q "$main" >/dev/null || main=main
  base=$(git merge-base HEAD "$main")
  [ "$base" != "$(git rev-parse HEAD)" ] || base=$(git rev-parse -q --verify HEAD~1 || git hash-object -t tree /dev/null)
  { git diff --name-only --diff-filter=d "$base" -- '*.cpp'; git ls-files --others --exclude-standard -- '*.cpp'; } | sort -u
}

[ -f "$build/compile_commands.json" ] || { echo "tidy: $build/compile_commands.json is missing; configure first (make tidy does)" >&2; exit 1; }
.venv/bin/python tools/clang_database.py "$build" "$build/tidy"
if [ $# -gt 0 ]; then files=("$@"); else mapfile -t files < <(changed_files); fi

known=()
for file in "${files[@]}"; do
  if grep -qF "\"$PWD/$file\"" "$build/tidy/compile_commands.json"; then
    known+=("$file")
  else
    echo "tidy: $file is in no target of $build, skipped" >&2
  fi
done
[ ${#known[@]} -gt 0 ] || { echo "tidy: no changed C++ source"; exit 0; }
echo "tidy: ${#known[@]} files"
printf '%s\0' "${known[@]}" | xargs -0 -P "$(tools/jobs.sh)" -n 1 clang-tidy -p "$build/tidy" --quiet
