#!/usr/bin/env bash
# Prints how many compilations this machine bears at once: one a core, and 2 GB of memory for each.
set -euo pipefail
cores=$(nproc)
by_memory=$(awk '/^MemAvailable:/ {print int($2 / 2000000)}' /proc/meminfo)
jobs=$((cores < by_memory ? cores : by_memory))
echo $((jobs > 0 ? jobs : 1))
