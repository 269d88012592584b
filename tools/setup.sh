#!/usr/bin/env bash
# Makes the machine ready to build: system packages (by apt, on the systems of knows_packages) and .venv with torch. Safe
# to run at any time; when nothing is missing it takes a fraction of a second and touches no network.
set -euo pipefail
cd "$(dirname "$0")/.."

packages_file=tools/packages.txt
requirements_file=tools/requirements.txt
cpu_wheels=https://download.pytorch.org/whl/cpu

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Prints the system as /etc/os-release names it, such as debian-12.
system_name() { (. /etc/os-release && printf '%s-%s\n' "${ID:-unknown}" "${VERSION_ID:-unknown}") 2>/dev/null || echo unknown; }

# True where the packages have the names of tools/packages.txt. Everything was run on Debian 12. The names were compared with
# Debian 13's list of packages; Ubuntu 24.04's are taken to be the same. Nothing was run on these two.
knows_packages() { case $1 in debian-12 | debian-13 | ubuntu-24.04) ;; *) return 1 ;; esac }

# Prints rows of package, version and probe.
package_rows() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$packages_file"; }

missing_debian_packages() {
  local names
  names=$(package_rows | awk '{print $1}')
  # shellcheck disable=SC2086  # the names are words
  comm -23 <(sort -u <<<"$names") \
    <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $names 2>/dev/null | awk '$2 == "installed" {print $1}' | sort -u)
}

# How to become root for apt: nothing when we are root, sudo when there is one, else fail.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    # Without a terminal nobody can type a password.
    if [ -t 0 ]; then sudo "$@"; else sudo -n "$@"; fi
  else
    return 1
  fi
}

install_debian_packages() {
  local missing
  missing=$(missing_debian_packages | tr '\n' ' ')
  [ -n "${missing// /}" ] || return 0
  say "installing system packages: $missing"
  # shellcheck disable=SC2086
  { as_root apt-get update -q && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing; } >&2 ||
    die "could not install them (not root, no sudo, or apt failed; its words are above). As root run: apt-get install $missing"
}

# On a system whose packages have other names: says what is missing and stops.
check_other_system() {
  local absent=() package version probe python
  while read -r package version probe _; do
    case $probe in
      program:*) command -v "${probe#program:}" >/dev/null || absent+=("$package (${probe#program:} not found on PATH; Debian 12 has $version)") ;;
      header:*)
        command -v g++ >/dev/null || continue # g++ itself is named already
        g++ -std=c++20 -E -x c++ -include "${probe#header:}" /dev/null >/dev/null 2>&1 ||
          absent+=("$package (header <${probe#header:}> not found by g++; Debian 12 has $version)") ;;
      python:*)
        python=$(python_in_use) || continue # make_environment says what it needs
        has_python_header "$python" "${probe#python:}" ||
          absent+=("$package (header <${probe#python:}> not found for $python; Debian 12 has $version)") ;;
    esac
  done < <(package_rows)
  if [ ${#absent[@]} -gt 0 ]; then
    say "packages are installed on Debian 12, Debian 13 and Ubuntu 24.04 only, and this is $1. Install by hand what it needs:"
    printf '  %s\n' "${absent[@]}" >&2
    exit 1
  fi
}

# Prints the first Python from 3.10 on that can make an environment with pip in it.
find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 /usr/bin/python3 python3.11 python3.12 python3.13 python3.10; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; then
      printf '%s\n' "$candidate"
      return 0
    fi
  done
  return 1
}

# Prints the Python that .venv has, or will be made of.
python_in_use() {
  if [ -x .venv/bin/python ]; then echo .venv/bin/python; else find_python; fi
}

# True if a Python ($1) comes with a header ($2) for extensions: other Pythons' do not fit it.
has_python_header() {
  "$1" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), sys.argv[1])))' "$2"
}

# True if .venv holds exactly what the requirements name, and torch's CMake files.
environment_is_right() {
  .venv/bin/python - "$requirements_file" 2>/dev/null <<'PYTHON'
import importlib.metadata, pathlib, sys
for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
    line = line.split("#")[0].strip()
    if line:
        name, version = line.split("==")
        # A local part such as 2.13.0+cpu is another build of the same version.
        assert importlib.metadata.version(name).split("+")[0] == version
torch = importlib.metadata.distribution("torch").locate_file("torch/share/cmake/Torch/TorchConfig.cmake")
assert pathlib.Path(str(torch)).exists()
PYTHON
}

# The CPU build of torch is the one that links without CUDA's toolkit. Where pip's own indexes have it, it is taken from
# there; else from PyTorch's index of CPU wheels; else torch is whatever the indexes call 2.13.0.
install_requirements() {
  local pip=(.venv/bin/python -m pip --disable-pip-version-check install --progress-bar off) torch
  torch=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' "$requirements_file")
  if [ "$(uname -sm)" = "Linux x86_64" ]; then
    "${pip[@]}" -r "$requirements_file" "torch==$torch+cpu" >&2 2>/dev/null && return 0
    "${pip[@]}" -r "$requirements_file" "torch==$torch+cpu" --extra-index-url "$cpu_wheels" >&2 && return 0
    say "no CPU build of torch $torch was found; trying any build of it"
  fi
  "${pip[@]}" -r "$requirements_file" >&2
}

make_environment() {
  local stamp=.venv/.ready wanted python
  wanted=$(sha256sum "$requirements_file" | cut -d' ' -f1)
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && [ -x .venv/bin/python ]; then return 0; fi
  if ! environment_is_right; then
    if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
      python=$(find_python) ||
        die "needs: python3 from 3.10 on with the modules venv and ensurepip (Debian: apt-get install python3 python3-venv); set PYTHON to name another"
      say "making .venv with $("$python" --version)"
      rm -rf .venv
      "$python" -m venv .venv >&2
    fi
    say "installing $(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$requirements_file" | tr '\n' ' ')into .venv"
    install_requirements || die "pip could not install $requirements_file; its words are above"
    environment_is_right || die ".venv lacks what $requirements_file names after the installation; delete .venv and run again"
  fi
  printf '%s\n' "$wanted" >"$stamp"
}

system=$(system_name)
if knows_packages "$system"; then install_debian_packages; else check_other_system "$system"; fi
make_environment
