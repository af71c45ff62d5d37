"""Memory of devices: what their allocators report to torch's profiler is recorded as it does, on every thread. A
library that calls torch's own function through its slot stands in for libc10_cuda."""

import ctypes
import json
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from recording import BACKENDS, CPU
from tachograph import _record
from tachograph._collect import native

pytestmark = pytest.mark.skipif("native" not in BACKENDS, reason="this build has no recorder")

SOURCE = """
#include <stddef.h>
#include <stdint.h>
void change(void *, int64_t, size_t, size_t, uint16_t) __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
void failure(int64_t, size_t, size_t, uint16_t) __asm__("_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");
void stand_change(uint64_t block, int64_t bytes, size_t allocated, size_t reserved, int device) {
  change((void *)block, bytes, allocated, reserved, device);
}
void stand_failure(int64_t bytes, size_t allocated, size_t reserved, int device) {
  failure(bytes, allocated, reserved, device);
}
"""
CUDA_0, CUDA_1 = 1, 1 | 1 << 8  # c10::Device: type in the first byte, number in the second
FIELDS = ("Device Type", "Device Id", "Addr", "Bytes", "Total Allocated", "Total Reserved")


@pytest.fixture(scope="module")
def allocator(tmp_path_factory):
    folder = tmp_path_factory.mktemp("allocator")
    (folder / "stand.c").write_text(SOURCE)
    libraries = f"{torch.__path__[0]}/lib"
    command = ["cc", "-shared", "-fPIC", "-Wl,-z,lazy", "-o", folder / "libstand.so", folder / "stand.c"]
    subprocess.run([*command, f"-L{libraries}", "-lc10", f"-Wl,-rpath,{libraries}"], check=True)
    library = ctypes.CDLL(str(folder / "libstand.so"))
    library.stand_change.argtypes = [ctypes.c_uint64, ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
    library.stand_failure.argtypes = [ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
    return library


def changes(allocator):
    """Takes, gives back, and fails, on two devices; a block that was there before is given back."""
    allocator.stand_change(0x7F0000000000, 512, 4096 + 512, 2 << 20, CUDA_0)
    with tg.record_function("label"):
        allocator.stand_change(0x7F0000100000, 1 << 33, 4608 + (1 << 33), 10 << 30, CUDA_0)
        allocator.stand_change(0x7F0000000000, 1024, 1024, 2 << 20, CUDA_1)
    allocator.stand_failure(1 << 40, 4608 + (1 << 33), 10 << 30, CUDA_0)
    allocator.stand_change(0x7F0000000000, -512, 4096 + (1 << 33), 10 << 30, CUDA_0)
    allocator.stand_change(0x7E0000000000, -4096, 1 << 33, 10 << 30, CUDA_0)


def of_devices(profile, tmp_path):
    profile.export_chrome_trace(str(tmp_path / "out.json"))
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    found = [e for e in events if e["name"] in ("[memory]", "[OutOfMemory]") and e["args"]["Device Type"] != 0]
    return [(e["name"], *(e["args"].get(field) for field in FIELDS)) for e in sorted(found, key=lambda e: e["ts"])]


def test_as_torchs_profiler_records_it(allocator, tmp_path):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as theirs:
        changes(allocator)
    with tg.profile(activities=[CPU], profile_memory=True, backend="native") as ours:
        changes(allocator)
    expected = of_devices(theirs, tmp_path)
    assert [row[4] for row in expected] == [512, 1 << 33, 1024, 1 << 40, -512, -4096]
    assert of_devices(ours, tmp_path) == expected


def test_every_thread(allocator, tmp_path):
    def work(device):
        for i in range(1000):
            allocator.stand_change(0x7F0000000000 + (i << 9), 512, 512 * (i + 1), 1 << 30, device)

    with tg.profile(activities=[CPU], profile_memory=True, backend="native") as profile:
        threads = [threading.Thread(target=work, args=(1 | i << 8,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = of_devices(profile, tmp_path)
    assert [sum(row[2] == i for row in found) for i in range(4)] == [1000] * 4
    assert {i: max(row[5] for row in found if row[2] == i) for i in range(4)} == dict.fromkeys(range(4), 512_000)


def test_nothing_when_off(allocator, tmp_path):
    with tg.profile(activities=[CPU], backend="native") as profile:
        changes(allocator)
    assert of_devices(profile, tmp_path) == []
    changes(allocator)  # the slots are as they were: torch's function is called


def test_peak_of_each_device(allocator, tmp_path):
    with tg.profile(activities=[CPU], profile_memory=True, backend="native") as profile:
        changes(allocator)
    table = profile.trace.ask("memory")
    peaks = {d: p for d, *p in zip(*(table[c] for c in ("device", "peak_allocated_bytes", "peak_reserved_bytes")))}
    assert peaks == {"GPU0": [4608 + (1 << 33), 10 << 30], "GPU1": [1024, 2 << 20]}


def test_says_whether_devices_are_recorded(allocator):
    """With an allocator that reports, yes; in a process without one, why not."""
    with tg.profile(activities=[CPU], profile_memory=True, backend="native"):
        assert _record.device_memory() is None
    program = (
        "import tachograph as tg, torch\n"
        "from tachograph import _record\n"
        "print(_record.device_memory())\n"
        "with tg.profile(activities=[tg.ProfilerActivity.CPU], profile_memory=True, backend='native'): pass\n"
        "print(_record.device_memory())\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    before, after = run.stdout.splitlines()
    assert before == "no recording had allocations among its features"
    if not torch.version.cuda and not torch.version.hip:
        assert after == "no allocator of a device that reports to torch's profiler is loaded"


@pytest.mark.parametrize("why, said", [(None, "recorded"), ("no slot", "no slot")])
def test_the_recording_says_it(why, said, monkeypatch):
    monkeypatch.setattr(_record, "device_memory", lambda: why)
    assert json.loads(native._cuda_members(False, True)["cudaRecorder"])["memory"] == said
    assert "memory" not in json.loads(native._cuda_members(False, False)["cudaRecorder"])
