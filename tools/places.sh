#!/bin/bash
# Fresh clones of HEAD in places that differ from a developer's folder: `make demo` and `make test` in each, and one line
# a place. A clone with a failure stays, with its log beside it. An hour, or with TESTS some minutes a place.
#   tools/places.sh [private|umask|space|long|locale|user|home …]     default: all of these; as root
#   tools/places.sh bookworm trixie testing     fresh Debian systems of these suites, with their own compilers and Python
# TESTS="tests/python/test_run.py …"  these tests instead of `make test`
# SITE=folder  each .venv sees the packages in this folder, and pip installs none
# ROOTS=folder  where the fresh systems are kept to be copied (default build/roots)
set -uo pipefail
cd "$(dirname "$0")/.."
source tools/root.sh
source=$PWD nobody=65534 failed=0
export ROOT_BINDS=
[ $# -gt 0 ] || set -- private umask space long locale user home
base=$(mktemp -d "${PLACES:-/tmp}/tachograph-places.XXXXXX")
caches=(PIP_CACHE_DIR="${PIP_CACHE_DIR:-$HOME/.cache/pip}" CCACHE_DIR="${CCACHE_DIR:-$HOME/.cache/ccache}")

# In the clone, with its umask and environment.
steps='
python=${PYTHON:-python3}
if [ -n "${SITE:-}" ]; then
  "$python" -m venv --without-pip .venv && cp tools/requirements.txt .venv/requirements.done || exit
  echo "$SITE" >"$(echo .venv/lib/python3*/site-packages)/site-folder.pth"
fi
make PYTHON="$python" demo || exit
if [ -n "${TESTS:-}" ]; then
  make PYTHON="$python" ready || exit
  TACHOGRAPH=$PWD/build/tachograph TACHOGRAPH_LIBRARY=$PWD/build/libtachograph.so OMP_NUM_THREADS=1 .venv/bin/python -m pytest -q $TESTS
else
  make PYTHON="$python" test
fi'

# A user whose packages are missing is shown the command that installs them.
set_up_is_shown() {
  mkdir "$base/nothing-installed"
  printf '#!/bin/sh\nexit 1\n' >"$base/nothing-installed/dpkg-query"
  chmod -R 755 "$base/nothing-installed"
  local said
  said=$("${as_user[@]}" PATH="$base/nothing-installed:$PATH" make -C "$1" demo 2>&1)
  [[ $said == *"  sudo apt-get install -y build-essential"* ]] || { echo "$said" >"$log" && return 1; }
}

# A Debian of its own, in which the clone is /tachograph; `make` installs its packages.
make_system() { # suite folder
  local kept
  kept=$(realpath -m "${ROOTS:-build/roots}/$1") && make_root "$kept" "$1" && rm -rf "$2" && cp -a "$kept" "$2" &&
    in_root "$2" / apt-get install -y --no-install-recommends make >"$2.log" 2>&1
}

for place; do
  folder=$base/$place mask=022
  as=(env "${caches[@]}") where=$folder/tachograph
  case $place in
  private | user | home) ;;
  umask) mask=077 ;;
  space) folder="$base/ein Ort mit Löchern" ;;
  long) folder=$base/$(printf 'l%.0s' $(seq $((180 - ${#base} - 1 - 11)))) ;; # and /tachograph
  locale) as+=(LANG=C LC_ALL=C) ;;
  bookworm | trixie | testing) ;;
  *) echo "places: there is no place $place" >&2 && exit 2 ;;
  esac
  begin=$SECONDS log=$base/$place.log result=ok
  mkdir -p "$folder" && chmod 700 "$folder"
  case $place in bookworm | trixie | testing)
    make_system "$place" "$folder" || { echo "places: no $place, see ${ROOTS:-build/roots}/$place.log and $log" >&2 && failed=1 && continue; }
    as=(in_root "$folder" /tachograph env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "TESTS=${TESTS:-}" "SITE=${SITE:-}")
    for name in SSL_CERT_FILE PIP_CERT; do [ -z "${!name:-}" ] || as+=("$name=${!name}"); done
    where=/ ROOT_BINDS=${SITE:-} ;;
  esac
  (umask $mask && git clone -q "$source" "$folder/tachograph")
  case $place in
  home) as+=(HOME=/dev/null/home) ;;
  user)
    chmod 755 "$base" "$folder" && mkdir "$folder/home" && chown -R $nobody "$folder"
    as_user=(setpriv --reuid $nobody --regid $nobody --clear-groups env -u XDG_CACHE_HOME HOME="$folder/home" PYTHON=/usr/bin/python3)
    as=("${as_user[@]}")
    set_up_is_shown "$folder/tachograph" || result="FAILED: the command that installs packages is not shown" ;;
  esac
  [ "$result" != ok ] || (cd "$where" && umask $mask && "${as[@]}" bash -c "$steps") >"$log" 2>&1 || result="FAILED: see $log"
  printf '%-8s %5d s  %s  %s\n' "$place" $((SECONDS - begin)) "$(grep -aE '[0-9]+ (passed|failed)' "$log" 2>/dev/null | tail -n 1)" "$result"
  if [ "$result" = ok ]; then rm -rf "$folder"; else failed=1; fi
done
[ $failed = 1 ] || rm -rf "$base"
exit $failed
