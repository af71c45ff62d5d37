#!/bin/bash
# Make or refresh a virtual environment.
#   tools/venv.sh          .venv: what builds the package, what tests it, and a torch for the demo. An importable torch of the
#                          machine is used as it is (a GPU build must not be replaced by another one).
#   tools/venv.sh check    .venv-check: formatters and checkers, each at one version
#   tools/venv.sh docs     .venv-docs: the generator of the site that `make docs` builds
#   tools/venv.sh wheels   .venv-wheels: the compiler of `make wheels`, and what looks at wheels
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
case "${1:-test}" in
test) venv=.venv want=tools/requirements.txt ;;
check | docs | wheels) venv=.venv-$1 want=tools/requirements-$1.txt ;;
*)
  echo "usage: tools/venv.sh [test|check|docs|wheels]" >&2
  exit 2
  ;;
esac
done_mark=$venv/requirements.done
install=("$venv/bin/python" -m pip install -q --disable-pip-version-check --no-compile) # of torch and pandas few modules are imported

if ! cmp -s "$want" "$done_mark" 2>/dev/null; then
  if [ ! -x "$venv/bin/python" ]; then
    echo "venv: making $venv with $($python --version)"
    site=()
    if [ "$venv" = .venv ] && "$python" -c 'import torch' 2>/dev/null; then site=(--system-site-packages); fi
    "$python" -m venv "${site[@]}" "$venv"
  fi
  echo "venv: installing what $want lists"
  "${install[@]}" -r "$want" </dev/null
  [ "$venv" != .venv ] || "$venv/bin/python" -c 'import torch' 2>/dev/null || "${install[@]}" torch==2.13.0 </dev/null
  cp "$want" "$done_mark"
fi
