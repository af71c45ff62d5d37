#!/bin/bash
# Run every libFuzzer target for some seconds, starting from its checked-in corpus; print executions and coverage.
#   tools/fuzz.sh SECONDS [TARGET…]
# New inputs are kept in build-fuzz/corpus/TARGET, crashes in build-fuzz/crash-*.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true
cmake -S . -B build-fuzz -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTG_SANITIZE=address,undefined -DTG_LIBFUZZER=ON \
  -DTG_BUILD_TESTS=ON >build-fuzz.log
cmake --build build-fuzz -j"$(nproc)" >>build-fuzz.log 2>&1 || { tail -n 40 build-fuzz.log; exit 1; }

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for source in tests/fuzz/fuzz_*.c; do targets+=("$(basename "$source" .c)"); done
fi
status=0
for target in "${targets[@]}"; do
  corpus=build-fuzz/corpus/$target
  mkdir -p "$corpus" "tests/fuzz/corpus/$target"
  log=build-fuzz/$target.log
  if ! "build-fuzz/$target" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=20 -print_final_stats=1 -artifact_prefix=build-fuzz/crash-"$target"- \
    "$corpus" "tests/fuzz/corpus/$target" >"$log" 2>&1; then
    status=1
    tail -n 40 "$log"
  fi
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  coverage=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 | cut -d' ' -f2)
  features=$(grep -o 'ft: [0-9]*' "$log" | tail -n 1 | cut -d' ' -f2)
  printf '%-20s %12s executions  %6s edges  %6s features\n' "$target" "${runs:-?}" "${coverage:-?}" "${features:-?}"
done
exit $status
