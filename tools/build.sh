#!/usr/bin/env bash
# Configures a preset when it needs it and builds targets: tools/build.sh <preset> <jobs> <target>... | --configure-only
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1 jobs=$2
shift 2

# Says nothing when all goes well: the configuration's hundred lines matter only when it fails.
configure() {
  local log
  mkdir -p build
  log=build/configure-$preset.log
  if ! cmake --preset "$preset" >"$log" 2>&1; then
    cat "$log" >&2
    echo "build: cmake --preset $preset failed; its words are above" >&2
    exit 1
  fi
}

# A build folder is good until the presets change; ninja itself runs cmake again when a CMakeLists.txt changes.
stamp=build/$preset/.presets
wanted=$(sha256sum CMakePresets.json tools/requirements.txt | sha256sum)
if [ ! -f "build/$preset/build.ninja" ] || [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
  configure
  printf '%s\n' "$wanted" >"$stamp"
fi
[ "${1:-}" = --configure-only ] || cmake --build "build/$preset" -j "$jobs" --target "$@"
