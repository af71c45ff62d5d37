#!/bin/bash
# Install the distribution packages that building and testing need; print the one command when it may not.
#   tools/deps.sh          what `make test` needs
#   tools/deps.sh check    also clang and its tools
#   tools/deps.sh browser  chromium, which the browser tests drive
#   tools/deps.sh arm      also the aarch64 cross compiler and qemu
#   tools/deps.sh wheels   what `make wheels` builds its libraries with, and what tries the wheels
# Packages already there are left alone, so a second run needs no network.
set -euo pipefail

packages=(build-essential cmake libisal-dev zlib1g-dev libzstd-dev libxxhash-dev libsqlite3-dev libcmocka-dev
  libwebsockets-dev python3 python3-venv python3-dev)
case "${1:-test}" in
test) ;;
check) packages+=(clang clang-tidy libclang-rt-dev) ;;
browser) packages=(chromium) ;;
arm) packages+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user) ;;
wheels) packages+=(nasm tcl dpkg-dev gcc-aarch64-linux-gnu libc6-dev-arm64-cross debootstrap qemu-user) ;;
*)
  echo "usage: tools/deps.sh [test|check|browser|arm|wheels]" >&2
  exit 2
  ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "deps: not a Debian or Ubuntu system; install what your distribution calls these, then run again with DEPS=0:" >&2
  echo "  ${packages[*]}" >&2
  exit 1
fi

is_installed() {
  case "$1" in # two packages whose names carry a version
  libclang-rt-dev) dpkg-query -W -f '${Package} ${Status}\n' 'libclang-rt-*-dev' 'libclang-common-*-dev' 2>/dev/null | grep -q 'ok installed' ;;
  *) dpkg-query -W -f '${Status}\n' "$1" 2>/dev/null | grep -q 'ok installed' ;;
  esac
}

missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "deps: all ${#packages[@]} packages are installed"
  exit 0
fi

# The runtime library of the sanitizers and of libFuzzer is named after clang's version.
for i in "${!missing[@]}"; do
  if [ "${missing[i]}" = libclang-rt-dev ]; then
    version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -n 1)
    missing[i]=libclang-rt-${version:-14}-dev
    apt-cache show "${missing[i]}" >/dev/null 2>&1 || missing[i]=libclang-common-${version:-14}-dev
  fi
done

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  else
    echo "deps: packages are missing and this user may not install them. Run this, then try again:" >&2
    echo "  sudo apt-get install -y ${missing[*]}" >&2
    exit 1
  fi
fi
export DEBIAN_FRONTEND=noninteractive
echo "deps: installing ${missing[*]}"
install=("${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}")
if ! "${install[@]}" </dev/null >/dev/null; then # the package lists may be absent or old
  "${as_root[@]}" apt-get update -q </dev/null
  "${install[@]}" </dev/null
fi
