#!/bin/bash
# make matrix: the recorder's tests on other versions of torch and Python. Needs several GB of disk and the network.
#   tools/matrix.sh [PYTHON:TORCH …]     default: an old torch, the newest, each on a Python that it has wheels for; a Python without torch
# MATRIX_ENVS=folder keeps the environments there (default build/matrix); one that exists is used as it is.
set -uo pipefail
cd "$(dirname "$0")/.."
pairs=("$@")
[ ${#pairs[@]} -gt 0 ] || pairs=(python3.11:2.4.1 python3.11:2.13.0 python3.12:2.15.0 python3.13:none)
envs=${MATRIX_ENVS:-build/matrix}
mkdir -p "$envs" build
status=0
results=()

set_up() { # python torch folder
  [ -x "$3/bin/python" ] || "$1" -m venv "$3" || return 1
  [ "$2" = none ] || "$3/bin/python" -c "import torch; assert torch.__version__.split('+')[0] == '$2'" 2>/dev/null ||
    "$3/bin/python" -m pip install -q "torch==$2" || return 1
  "$3/bin/python" -c "import numpy, pytest, hypothesis, pandas, pyarrow, scikit_build_core, ninja" 2>/dev/null ||
    "$3/bin/python" -m pip install -q numpy pytest hypothesis pandas pyarrow scikit-build-core ninja 'cmake>=3.18' || return 1
  "$3/bin/python" -m pip install -q --no-deps --no-build-isolation --force-reinstall .
}

for pair in "${pairs[@]}"; do
  python=${pair%%:*} torch=${pair#*:}
  folder=$envs/$python-torch$torch
  if [ ! -x "$folder/bin/python" ] && ! command -v "$python" >/dev/null; then
    results+=("$pair: no $python here")
    status=1
    continue
  fi
  echo "matrix: $pair"
  if ! set_up "$python" "$torch" "$folder" >"build/matrix-$python-$torch.log" 2>&1; then
    results+=("$pair: could not be set up, see build/matrix-$python-$torch.log")
    status=1
    continue
  fi
  tests=(tests/python/test_{record_api,run_window,tables}.py) # those of the recorder that need no torch
  [ "$torch" = none ] || mapfile -t -O ${#tests[@]} tests < <(grep -l 'importorskip("torch")' tests/python/test_*.py)
  # pipefail: what pytest ends with, also where it finds no test or takes no option.
  line=$("$folder/bin/python" -m pytest -q "${tests[@]}" 2>&1 | tee -a "build/matrix-$python-$torch.log" | tail -n 1) || status=1
  results+=("$pair: $line")
done
printf '%s\n' "${results[@]}"
exit $status
