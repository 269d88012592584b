#!/usr/bin/env bash
# Asks compare_worker for each of its cases once, but for the training steps and the long loops, which take long:
# check_worker.sh <program>
set -euo pipefail
worker=$1
status=0
for engine in diptych diptych_{joint,min_cut,one_block,written_out,all_kept,64_carries,segment_32,xla} eager; do
  listed=$(echo '{"list": true}' | "$worker" "$engine" | grep -o '"[a-z]*/[^"]*"') # none listed is an error
  requests=()
  for name in $listed; do
    [[ $name != '"step/'* ]] || continue
    [[ ! $name =~ /([0-9]+)\"$ || ${BASH_REMATCH[1]} -le 32 ]] || continue
    [[ $name != '"xla/'* || $name == */mlp\" ]] || continue
    requests+=("{\"case\": $name, \"repeat\": 1}")
  done
  ((${#requests[@]})) || continue
  replies=$(printf '%s\n' "${requests[@]}" | "$worker" "$engine") || replies+=$'\nit ended'
  if [[ $(grep -c '"times_ns"' <<<"$replies") != "${#requests[@]}" ]]; then
    printf '%s, asked:\n%s\ngot:\n%s\n' "$engine" "$(printf '%s\n' "${requests[@]}")" "$replies" >&2
    status=1
  fi
done
exit $status
