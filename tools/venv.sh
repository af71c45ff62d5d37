#!/bin/bash
# Make or refresh the virtual environment .venv: what builds the package, what tests it, and a torch for the demo.
# An importable torch of the machine is used as it is (a GPU build must not be replaced by another one).
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
want=tools/requirements.txt
done_mark=.venv/requirements.done

if ! cmp -s "$want" "$done_mark" 2>/dev/null; then
  if [ ! -x .venv/bin/python ]; then
    echo "venv: making .venv with $($python --version)"
    site=()
    if "$python" -c 'import torch' 2>/dev/null; then site=(--system-site-packages); fi
    "$python" -m venv "${site[@]}" .venv
  fi
  echo "venv: installing $(grep -cv '^#' "$want") requirements"
  .venv/bin/python -m pip install -q --disable-pip-version-check -r "$want" </dev/null
  .venv/bin/python -c 'import torch' 2>/dev/null || .venv/bin/python -m pip install -q --disable-pip-version-check torch==2.13.0 </dev/null
  cp "$want" "$done_mark"
fi
