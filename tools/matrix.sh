#!/bin/bash
# make matrix: the recorder's tests on other versions of Python and torch. Needs many GB of disk, the network, and hours.
#   tools/matrix.sh [--quick] [PYTHON:TORCH …]   default: Python 3.10 to 3.15, each with the newest torch of 2.4, 2.9, 2.13 and of all
#                                                that PyPI has for it; PYTHON:none is without torch
# --quick: 17 tests a pair, one or more of each source of the recorder; an environment that it makes is removed afterwards.
# MATRIX_ENVS=folder keeps the environments there (default build/matrix); one that exists is used, and stays.
# A Python that is not here is taken from Debian's unstable suite, in a root file system that debootstrap makes (MATRIX_ROOT, default
# MATRIX_ENVS/root; ROOTS_MIRROR, default apt's first): that takes root. One that cannot be had is named as skipped.
# Each Python compiles the extensions of our package only: the rest are the objects of `make all`, or of a build in the root file system.
set -uo pipefail
cd "$(dirname "$0")/.."
source tools/root.sh
tree=$PWD
envs=$(realpath -m "${MATRIX_ENVS:-build/matrix}")
root=$(realpath -m "${MATRIX_ROOT:-$envs/root}")
mkdir -p "$envs" build
status=0
results=()
quick=
[ "${1:-}" != --quick ] || { quick=1 && shift; }

# Those of --quick: what each source of the recorder sees is what Python and torch say themselves.
quick_tests() { # torch
  local t=tests/python
  echo $t/test_frames.py $t/test_record_api.py::test_{what_is_marked_is_in_the_file,runs_of_the_garbage_collector,off_means_off}
  [ "$1" = none ] && return
  echo $t/test_record_torch.py::test_{ops_labels_and_torchs_own_annotations_are_in_one_file,sessions_leave_nothing}
  echo $t/test_stacks.py::test_{functions_are_those_torch_reports,paths_are_those_of_the_model,calls_are_those_that_setprofile_sees}
  echo $t/test_module_spans.py::test_every_way_to_call $t/test_memory.py::test_frames_name_the_line_that_asked
  echo $t/test_samples.py::test_samples_do_not_overlap_and_lie_in_the_steps $t/test_attach.py::test_seconds_without_steps_and_ctrl_c
}

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

# Sets `run`, the words before a command for it; `at` and `folder`: its environments are $at$folder here; `objects`, and what uv calls it.
find_python() { # python
  run=(env PYENV_VERSION="${1#python}") at='' folder=$envs objects=$tree/build # pyenv's commands start only the versions that are switched on
  local here
  if here=$("${run[@]}" "$1" -c "import venv, ensurepip, sys; print(sys.executable)"); then
    interpreter=(--python "$here")
    return
  fi
  [ "$(id -u)" = 0 ] && command -v debootstrap && root_with_pythons && [ -x "$root/usr/bin/$1" ] || return 1
  rm -rf "$root/tachograph" && mkdir -p "$root/tachograph" && git ls-files -z | xargs -0 cp -p --parents -t "$root/tachograph" || return 1
  run=(in_root "$root" /tachograph) at=$root folder=/envs objects=/objects interpreter=(--python-version "${1#python}")
}

# uv reads its packages from one cache by hard links: another Python's environment with the same torch takes no more disk.
uv() {
  [ -x "$envs/uv/bin/uv" ] || { python3 -m venv "$envs/uv" && "$envs/uv/bin/python" -m pip install -q uv; } || return 1
  UV_CACHE_DIR="$envs/uv-cache" UV_LINK_MODE=hardlink "$envs/uv/bin/uv" "$@"
}

# torch's wheels only: its source packages are other things.
install() { # python environment package…
  local site=$at$2/lib/$1/site-packages
  uv pip install -q "${interpreter[@]}" --only-binary :all: --target "$site" "${@:3}"
}

versions_of_torch() { # those to try, oldest first
  local version
  for version in '==2.4.*' '==2.9.*' '==2.13.*' ''; do
    echo "torch$version" | uv pip compile -q --no-deps --no-header --no-annotate --only-binary :all: "${interpreter[@]}" -
  done | sed -n 's/^torch==//p' | sort -uV
}

# Our package for this Python; once.
build_package() { # python
  local environment=$folder/$1
  wheels=$folder/wheels-$1
  [ "$built" = "$1" ] && return
  if [ -n "$at" ]; then # the libraries there are others
    "${run[@]}" cmake -G Ninja -S . -B "$objects" -DTG_BUILD_TESTS=OFF && "${run[@]}" cmake --build "$objects" || return 1
  fi
  "${run[@]}" "$1" -m venv "$environment" && install "$1" "$environment" scikit-build-core ninja 'cmake>=3.18' &&
    rm -rf "$at$wheels" && "${run[@]}" env PATH="$environment/bin:$PATH" "$environment/bin/python" -m pip wheel -q --no-deps --no-build-isolation \
    --config-settings=build-dir="build/matrix-$1" --config-settings=cmake.define.TG_OBJECTS_FROM="$objects" -w "$wheels" . && built=$1
}

set_up() { # python torch folder
  local python=("${run[@]}" "$3/bin/python")
  build_package "$1" || return 1
  "${python[@]}" -c "" || "${run[@]}" "$1" -m venv --without-pip "$3" || return 1
  [ "$2" = none ] || "${python[@]}" -c "import torch; assert torch.__version__.split('+')[0] == '$2'" || install "$1" "$3" "torch==$2" || return 1
  "${python[@]}" -c "import numpy, pytest, hypothesis" || install "$1" "$3" numpy pytest pytest-xdist hypothesis || return 1
  [ -n "$quick" ] || "${python[@]}" -c "import pandas, pyarrow" || install "$1" "$3" pandas pyarrow # their tests are skipped without
  install "$1" "$3" --no-deps --reinstall "$at$wheels"/*.whl
}

try() { # python torch
  local log=$tree/build/matrix-$1-$2.log environment=$folder/$1-torch$2
  local once=$quick
  [ ! -e "$at$environment" ] || once=
  echo "matrix: $1:$2"
  if ! set_up "$1" "$2" "$environment" >"$log" 2>&1; then
    results+=("$1:$2: could not be set up, see build/matrix-$1-$2.log")
    return 1
  fi
  local tests=(tests/python/test_{frames,record_api,run_window,tables}.py) # those of the recorder that need no torch
  [ "$2" = none ] || mapfile -t -O ${#tests[@]} tests < <(grep -l 'importorskip("torch")' tests/python/test_*.py | grep -v test_frames)
  [ -z "$quick" ] || read -r -d '' -a tests < <(quick_tests "$2")
  local package=$environment/lib/$1/site-packages/tachograph
  # pipefail: what pytest ends with, also where it finds no test or takes no option.
  local line failed=0
  line=$("${run[@]}" env TACHOGRAPH="$package/bin/tachograph" TACHOGRAPH_LIBRARY="$package/lib/libtachograph.so" \
    "$environment/bin/python" -m pytest -q "${tests[@]}" 2>&1 | tee -a "$log" | grep . | tail -n 1) || failed=1
  results+=("$1:$2: $line")
  [ -z "$once" ] || { rm -rf "$at$environment" && uv cache clean -q torch; }
  return $failed
}

built=
[ $# -gt 0 ] || set -- python3.{10,11,12,13,14,15}
for pair; do
  python=${pair%%:*}
  if ! find_python "$python" >>build/matrix.log 2>&1; then
    results+=("$python: skipped, it cannot be had here")
    continue
  fi
  torches=${pair#"$python"} torches=${torches#:}
  for torch in ${torches:-$(versions_of_torch 2>>build/matrix.log || echo none)}; do try "$python" "$torch" || status=1; done
done
printf '%s\n' "${results[@]}"
exit $status
