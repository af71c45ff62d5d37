#!/bin/bash
# make matrix: the recorder's tests on other versions of Python and torch. Needs many GB of disk, the network, and hours.
#   tools/matrix.sh [PYTHON:TORCH …]     default: Python 3.10 to 3.15, each with the newest torch of 2.4, 2.9, 2.13 and of all that PyPI has for it
# MATRIX_ENVS=folder keeps the environments there (default build/matrix); one that exists is used as it is.
# A Python that is not here is taken from Debian's unstable suite, in a root file system that debootstrap makes (MATRIX_ROOT, default
# MATRIX_ENVS/root; ROOTS_MIRROR, default apt's first): that takes root. One that cannot be had is named as skipped.
set -uo pipefail
cd "$(dirname "$0")/.."
source tools/root.sh
tree=$PWD
envs=$(realpath -m "${MATRIX_ENVS:-build/matrix}")
root=$(realpath -m "${MATRIX_ROOT:-$envs/root}")
mkdir -p "$envs" build
status=0
results=()

root_with_pythons() { # that the suite has; once
  [ -e "$root/pythons" ] && return
  local packages=gcc,g++,make,cmake,ninja-build,libisal-dev,libzstd-dev,zlib1g-dev,libxxhash-dev,libsqlite3-dev,libwebsockets-dev
  make_root "$root" unstable "$packages" || return 1
  local version
  for version in 3.13 3.14 3.15; do
    in_root "$root" / apt-get install -y --no-install-recommends "python$version"{,-dev,-venv} || true
  done
  touch "$root/pythons"
}

find_python() { # python: sets `run`, the words before a command for it, and `folder` of its environments
  run=(env PYENV_VERSION="${1#python}") folder=$envs # pyenv's commands start only the versions that are switched on
  command -v "$1" >/dev/null && "${run[@]}" "$1" -c "import venv, ensurepip" && return
  [ "$(id -u)" = 0 ] && command -v debootstrap && root_with_pythons && [ -x "$root/usr/bin/$1" ] || return 1
  rm -rf "$root/tachograph" && mkdir -p "$root/tachograph" && git ls-files -z | xargs -0 cp --parents -t "$root/tachograph" || return 1
  run=(in_root "$root" /tachograph) folder=/envs
}

versions_of_torch() { # python: those to try, oldest first
  local all wanted
  "${run[@]}" "$1" -m venv "$folder/$1" || return 1
  all=$("${run[@]}" "$folder/$1/bin/python" -m pip index versions torch | sed -n 's/^Available versions: //p' | tr -d ' ' | tr ',' '\n' | grep -v '+')
  for wanted in '2\.4\.' '2\.9\.' '2\.13\.' ''; do grep -m 1 "^$wanted" <<<"$all"; done | sort -uV
}

set_up() { # python torch folder
  local python=("${run[@]}" "$3/bin/python")
  "${python[@]}" -c "" || "${run[@]}" "$1" -m venv "$3" || return 1
  [ "$2" = none ] || "${python[@]}" -c "import torch; assert torch.__version__.split('+')[0] == '$2'" ||
    "${python[@]}" -m pip install -q --no-compile "torch==$2" || return 1
  "${python[@]}" -c "import numpy, pytest, hypothesis, scikit_build_core, ninja" ||
    "${python[@]}" -m pip install -q --upgrade pip numpy pytest hypothesis scikit-build-core ninja 'cmake>=3.18' || return 1
  "${python[@]}" -c "import pandas, pyarrow" || "${python[@]}" -m pip install -q --no-compile pandas pyarrow # their tests are skipped without
  "${run[@]}" env PATH="$3/bin:$PATH" "$3/bin/python" -m pip install -q --no-deps --no-build-isolation --force-reinstall .
}

try() { # python torch
  local log=$tree/build/matrix-$1-$2.log environment=$folder/$1-torch$2
  echo "matrix: $1:$2"
  if ! set_up "$1" "$2" "$environment" >"$log" 2>&1; then
    results+=("$1:$2: could not be set up, see build/matrix-$1-$2.log")
    return 1
  fi
  local tests=(tests/python/test_{frames,record_api,run_window,tables}.py) # those of the recorder that need no torch
  [ "$2" = none ] || mapfile -t -O ${#tests[@]} tests < <(grep -l 'importorskip("torch")' tests/python/test_*.py | grep -v test_frames)
  local package
  package=$("${run[@]}" "$environment/bin/python" -c "import importlib.util as u; print(u.find_spec('tachograph').submodule_search_locations[0])")
  # pipefail: what pytest ends with, also where it finds no test or takes no option.
  local line failed=0
  line=$("${run[@]}" env TACHOGRAPH="$package/bin/tachograph" TACHOGRAPH_LIBRARY="$package/lib/libtachograph.so" \
    "$environment/bin/python" -m pytest -q "${tests[@]}" 2>&1 | tee -a "$log" | tail -n 1) || failed=1
  results+=("$1:$2: $line")
  return $failed
}

if [ $# -gt 0 ]; then
  for pair in "$@"; do
    if find_python "${pair%%:*}" >>build/matrix.log 2>&1; then
      try "${pair%%:*}" "${pair#*:}" || status=1
    else
      results+=("${pair%%:*}: skipped, it cannot be had here")
    fi
  done
else
  for python in python3.{10,11,12,13,14,15}; do
    if ! find_python "$python" >>build/matrix.log 2>&1 || ! torches=$(versions_of_torch "$python" 2>>build/matrix.log); then
      results+=("$python: skipped, it cannot be had here")
      continue
    fi
    for torch in ${torches:-none}; do try "$python" "$torch" || status=1; done
  done
fi
printf '%s\n' "${results[@]}"
exit $status
