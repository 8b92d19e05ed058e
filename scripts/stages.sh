#!/usr/bin/env bash
# Runs make targets one after the other up to the first that fails, and ends with the duration of each.
set -euo pipefail
report=""
print_durations() { printf '\nDuration of each stage:\n%b' "$report"; }
trap print_durations EXIT
for stage in "$@"; do
  begin=$SECONDS
  status=0
  "${MAKE:-make}" "$stage" || status=$?
  elapsed=$((SECONDS - begin))
  report+=$(printf '  %-12s %3d min %02d s' "$stage" $((elapsed / 60)) $((elapsed % 60)))
  if ((status)); then
    report+=" (failed)\n"
    exit "$status"
  fi
  report+="\n"
done
