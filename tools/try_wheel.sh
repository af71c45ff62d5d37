#!/bin/bash
# Install a wheel in fresh root file systems of Debian without a compiler, and report on a trace of 1 MB there; one line each,
# with the time of both. As root.
#   tools/try_wheel.sh WHEEL…
# A wheel for another machine runs under qemu-user instead, and its report must equal that of the wheel for this one.
# SUITES="bookworm trixie testing"  Debian 12, 13 and testing
# ROOTS=folder  where the root file systems are kept (default build/roots)
# SAMPLE=file   another trace to report on
set -uo pipefail
cd "$(dirname "$0")/.."
source tools/root.sh
roots=$(realpath -m "${ROOTS:-build/roots}") failed=0 native=$(uname -m) work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$roots"

# Steps of operators and kernels.
[ -n "${SAMPLE:-}" ] && cp "$SAMPLE" "$work/sample.json" || python3 - "$work/sample.json" <<'END'
import json, sys
events, time = [], 0
for step in range(26):
    begin = time
    for i in range(70):
        name, lasts, number = ("aten::mm", "aten::add_", "aten::copy_", "aten::relu")[i % 4], 20 + (i * 7 + step) % 90, len(events) + 1
        shapes = {"External id": number, "Input Dims": [[32, 64], [64, 128]], "Sequence number": i}
        link = {"External id": number, "correlation": number}
        events.append({"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": time, "dur": lasts, "args": shapes})
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": time + 2, "dur": 6, "args": link})
        device = link | {"device": 0, "stream": 7, "grid": [64, 1, 1], "block": [256, 1, 1]}
        events.append({"ph": "X", "cat": "kernel", "name": "gemm_" + name[6:], "pid": 0, "tid": 7, "ts": time + 9, "dur": lasts - 5, "args": device})
        time += lasts + 3
    events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": begin, "dur": time - begin})
    time += 50
json.dump({"schemaVersion": 1, "traceEvents": events}, open(sys.argv[1], "w"))
END

# In the root file system: the version of Python, and the seconds on the clock and of CPU that installing and reporting took.
steps='
import glob, platform, resource, shutil, subprocess, time
assert not any(map(shutil.which, ("cc", "gcc", "clang", "c++", "g++"))), "there is a compiler"
subprocess.run(["python3", "-m", "venv", "venv"], check=True)
begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
subprocess.run(["venv/bin/pip", "install", "-q", "--no-index", "--disable-pip-version-check", *glob.glob("*.whl")], check=True)
subprocess.run(["venv/bin/tachograph", "report", "sample.json"], check=True, stdout=open("report", "w"))
after = resource.getrusage(resource.RUSAGE_CHILDREN)
cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
print(f"Python {platform.python_version()}, no compiler: installed and reported in {time.monotonic() - begin:.1f} s, {cpu:.1f} s of CPU")
subprocess.run(["venv/bin/python", "-c", "import tachograph._record"], check=True)
'

try_here() { # wheel suite
  local root=$roots/$2 said
  make_root "$root" "$2" || { echo "$2: no root file system, see $root.log" && return 1; }
  rm -rf "$root/try" && mkdir "$root/try" && cp "$1" "$work/sample.json" "$root/try/"
  if ! said=$(in_root "$root" /try python3 -c "$steps" 2>"$work/errors") || ! grep -q "^trace " "$root/try/report"; then
    echo "$2: FAILED: $(tail -n 3 "$work/errors" | tr '\n' ' ')"
    return 1
  fi
  cp "$root/try/report" "$work/report.$native"
  echo "$2, $said"
}

try_emulated() { # wheel machine architecture: unpacked and started by hand, as nothing here starts a foreign program
  local root=$roots/bookworm-$3 package
  if [ ! -e "$root/ready" ]; then
    rm -rf "$root" && mkdir -p "$root" || return 1
    debootstrap --foreign --arch="$3" --variant=minbase --include=python3 bookworm "$root" "$(mirror)" >"$root.log" 2>&1 || return 1
    for package in "$root"/var/cache/apt/archives/*.deb; do dpkg -x "$package" "$root" || return 1; done
    touch "$root/ready"
  fi
  rm -rf "$root/try" && mkdir "$root/try" || return 1
  python3 -m pip install -q --root-user-action ignore --disable-pip-version-check --no-index --no-compile --target "$root/try" --only-binary=:all: --implementation cp --abi abi3 \
    --python-version 3.11 --platform "manylinux_2_28_$2" "$1" || return 1
  local run=("qemu-$2" -L "$root")
  (cd "$work" && "${run[@]}" "$root/try/tachograph/bin/tachograph" report sample.json >"report.$2") || return 1
  (cd "$work" && PYTHONPATH=$root/try "${run[@]}" "$root/usr/bin/python3" -c \
    'import tachograph as t, tachograph._record; print(t.open("sample.json").report(), end="")' >"python.$2") || return 1
  [ -e "$work/report.$native" ] || { echo "$2: give the wheel for $native too" && return 1; }
  for report in report python; do # the time that opening took is no answer
    sed -E '1,/^trace/s/ [0-9.]+ m?s,/ TIME,/' "$work/$report.$2" >"$work/a"
    sed -E '1,/^trace/s/ [0-9.]+ m?s,/ TIME,/' "$work/report.$native" >"$work/b"
    diff "$work/a" "$work/b" >&2 || return 1
  done
  echo "$2 under qemu: reports of the program and of Python equal $native's"
}

for wheel; do
  case $wheel in
  *_"$native".whl) for suite in ${SUITES:-bookworm trixie testing}; do try_here "$wheel" "$suite" || failed=1; done ;;
  *) foreign+=("$wheel") ;;
  esac
done
for wheel in "${foreign[@]:-}"; do
  case $wheel in
  '') ;;
  *_aarch64.whl) try_emulated "$wheel" aarch64 arm64 || { echo "aarch64: FAILED" && failed=1; } ;;
  *_x86_64.whl) try_emulated "$wheel" x86_64 amd64 || { echo "x86_64: FAILED" && failed=1; } ;;
  esac
done
exit $failed
