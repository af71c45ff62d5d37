#!/bin/bash
# The long checks: format, Python checkers, unit tests and fuzz corpora under sanitizers, a clang build without warnings,
# clang-tidy, and every test, also those that .ci/run leaves out (docs/testing.md). The include law is checked before.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${J:-$(nproc)}
tools=.venv-check/bin

step() {
  echo "check: $1 ($((SECONDS / 60)) min $((SECONDS % 60)) s)"
}

step "clang-format, ruff"
find src include python tests examples -name '*.[ch]' -print0 | xargs -0 "$tools/clang-format" --dry-run -Werror
"$tools/ruff" check --quiet .
"$tools/ruff" format --check --quiet .
if grep -q '^\[tool.mypy\]' pyproject.toml; then
  step "mypy"
  "$tools/mypy" --python-executable .venv/bin/python --no-error-summary
  "$tools/mypy" --python-executable .venv/bin/python --no-error-summary python/tachograph/__init__.py # else its stub stands for it
fi
step "stubs beside the package at run time"
PYTHONPATH=$(echo "$PWD"/.venv-check/lib/python3*/site-packages) .venv/bin/python tools/check_stubs.py
if [ -f tools/words.py ]; then
  step "words"
  .venv/bin/python tools/words.py
fi

step "workflows"
"$tools/zizmor" --offline --quiet .github

step "layouts of CUPTI, from its headers"
.venv/bin/python tools/cupti_layouts.py

step "two builds of the wheel are equal"
.venv/bin/python tools/reproducible.py

step "gcc, address and undefined-behaviour sanitizers"
cmake -S . -B build-san -DCMAKE_BUILD_TYPE=Debug -DTG_SANITIZE=address,undefined -DTG_BUILD_TESTS=ON >build-san.log
cmake --build build-san -j"$jobs" >>build-san.log 2>&1 || { tail -n 40 build-san.log; exit 1; }
TG_ANY_RESIDENT=1 UBSAN_OPTIONS=print_stacktrace=1 ctest --test-dir build-san --output-on-failure --timeout 300 -j"$jobs" -Q \
  --output-log build-san/ctest.log || { tail -n 100 build-san/ctest.log; exit 1; }
grep 'tests passed' build-san/ctest.log

step "the recorder, and pages that threads share, under the thread sanitizer" # but for forking: the sanitizer cannot start threads in a child
cmake -S . -B build-tsan -DCMAKE_BUILD_TYPE=Debug -DTG_SANITIZE=thread -DTG_BUILD_TESTS=ON >build-tsan.log
cmake --build build-tsan -j"$jobs" --target test_capture_parts test_capture_records test_capture_limits test_capture_faults test_capture_nvtx test_base_pages >>build-tsan.log 2>&1 ||
  { tail -n 40 build-tsan.log; exit 1; }
TG_ANY_RESIDENT=1 TSAN_OPTIONS=suppressions=$PWD/tools/tsan.supp ctest --test-dir build-tsan -R 'test_(capture_(parts|records|limits|faults|nvtx)|base_pages)' --output-on-failure --timeout 300 -Q \
  --output-log build-tsan/ctest.log || { tail -n 100 build-tsan/ctest.log; exit 1; }
grep 'tests passed' build-tsan/ctest.log

step "clang, warnings are errors"
cmake -S . -B build-clang -DCMAKE_C_COMPILER=clang -DCMAKE_C_FLAGS=-Werror -DTG_BUILD_TESTS=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >build-clang.log
cmake --build build-clang -j"$jobs" >>build-clang.log 2>&1 || { grep -A5 -E 'error|warning' build-clang.log | head -n 80; exit 1; }
ctest --test-dir build-clang --output-on-failure --timeout 120 -j"$jobs" -Q --output-log build-clang/ctest.log ||
  { tail -n 100 build-clang/ctest.log; exit 1; }
grep 'tests passed' build-clang/ctest.log

step "clang-tidy"
python_headers=$(python3 -c "import sysconfig; print(sysconfig.get_path('include'))")
find src -name '*.c' -print0 | xargs -0 -n 4 -P "$jobs" clang-tidy -p build-clang --quiet --warnings-as-errors='*' --extra-arg=-I"$python_headers" 2>/dev/null

step "every test, with the peers' environments and more random examples"
env -u CI PEERS=1 TG_LONG=1 .venv/bin/python tools/suite.py --build build
echo "check: all passed"
