#!/usr/bin/env bash
# Makes the Python package's wheel of what build folders hold: tools/wheel.sh <build folder> <folder for the wheel> [<build
# folder for another torch>...]. The import takes the library for the torch that is there.
# The library goes into it as it was built and tested there, so this takes seconds; `pip install .` compiles its own.
# PYTHON names the Python that the build was made for, where that is not .venv's.
set -euo pipefail
build=$(realpath "$1")
mkdir -p "$2"
to=$(realpath "$2")
shift 2
others=()
for other in "$@"; do others+=("$(realpath "$other")"); done
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}

staged=$build/wheel
rm -rf "$staged"
cmake --install "$build" --component python --strip --prefix "$staged" >"$build/wheel.log"
library=$staged/diptych/_core$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
[ -f "$library" ] || { echo "wheel: $build was built for another Python than $python: it has no $(basename "$library")" >&2; exit 1; }

# The torch that a staged package was built for, "2.15".
torch_of() { sed -n 's/^TORCH_VERSION = "\([0-9]*\.[0-9]*\).*/\1/p' "$1/diptych/_build.py"; }

torches=$(torch_of "$staged")
for other in "${others[@]}"; do
  rm -rf "$other/wheel"
  cmake --install "$other" --component python --strip --prefix "$other/wheel" >>"$build/wheel.log"
  mkdir -p "$staged/diptych/_cores/$(torch_of "$other/wheel")"
  mv "$other/wheel/diptych/$(basename "$library")" "$staged/diptych/_cores/$(torch_of "$other/wheel")"
  torches+=", $(torch_of "$other/wheel")"
done

# The newest of the versioned symbols that a prefix stands before: what a system must have at least.
newest() { readelf --version-info --wide $(find "$staged" -name "*.so") | grep -o "$1_[0-9.]*" | sort -V | tail -1; }
fits() { [ "$(printf '%s\n' "$1" "$2" | sort -V | tail -1)" = "$2" ]; }

# What asks for nothing newer than systems of 2021 have is tagged so (PEP 600), and pip takes it on all of them: python/src/old_symbols.cpp.
platform=()
if [ "$(uname -m)" = x86_64 ] && fits "$(newest GLIBC)" GLIBC_2.34 && fits "$(newest GLIBCXX)" GLIBCXX_3.4.29 && fits "$(newest CXXABI)" CXXABI_1.3.13; then
  platform=(-C env._PYTHON_HOST_PLATFORM=manylinux_2_34_x86_64)
fi

# Nothing is configured or compiled: the package's sources and the staged files are packed, for the platform that Python is for.
tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
rm -f "$to"/diptych-*-"$tag"-*.whl
"$python" -m pip --disable-pip-version-check wheel . --no-deps --no-build-isolation --wheel-dir "$to" \
  -C wheel.cmake=false -C wheel.platlib=true -C "wheel.force-include.$staged/diptych=diptych" "${platform[@]}" >>"$build/wheel.log" 2>&1 ||
  { cat "$build/wheel.log" >&2; exit 1; }

for wheel in "$to"/diptych-*-"$tag"-*.whl; do
  echo "wheel: $wheel, $(du -h "$wheel" | cut -f1), for torch $torches, needs $(newest GLIBC) and $(newest GLIBCXX)"
done
