"""Memory with the same names on the CPU and on a device.

    with tg.memory.history(max_entries=100_000) as history:   # every allocation and free, with its stack
        train_step()
    print(history.summary())
    history.dump("mem.pickle")                                # as torch's snapshots, for the viewers of those
    print(tg.memory.stages(model, loss_fn, optimizer, batch)) # one training step, stage by stage
    tg.memory.reset_peak(); work(); print(tg.memory.peak())
    with tg.memory.snapshot_at_oom("oom.pickle"): train()     # what the device held when it was full

On the CPU, allocations are those of tensors. Without a recording the live ones are not known there; peak() is then the
process'."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

from ._measure.device import resolve, torch_module
from ._measure.phases import loss_of, split_batch
from ._memory.device_snapshots import memory_snapshot as snapshot, snapshot_at_oom
from ._memory.history import Entry, base_ns, cpu_entries, live_at_end, snapshot_of

__all__ = [
    "history",
    "dump",
    "summary",
    "peak",
    "reset_peak",
    "snapshot",
    "snapshot_at_oom",
    "stages",
    "History",
    "Peak",
    "Stages",
]

_last: History | None = None


def human(size: float) -> str:
    """1_536_000 → "1.54 MB": thousands, as disks and viewers count."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1000
    raise AssertionError


def _is_cuda(device: Any) -> bool:
    return getattr(device, "type", str(device)) == "cuda"


# ---- peak --------------------------------------------------------------------------------------------------


class Peak(NamedTuple):
    """The most memory that was in use."""

    bytes: int
    of: str  # what was measured

    def __str__(self) -> str:
        return f"{human(self.bytes)} {self.of}"


def _status(field: str) -> int:
    """A field of /proc/self/status in bytes, 0 when the system has no such file."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":")), 0)
    except OSError:
        return 0


def peak(device: Any = None) -> Peak:
    """The most memory in use since reset_peak(), or since the start: allocated by tensors on a device; on the CPU
    resident in the process."""
    where = resolve(device)
    if _is_cuda(where):
        return Peak(torch_module().cuda.max_memory_allocated(where), f"allocated on {where}")
    return Peak(_status("VmHWM"), "resident in the process")


def reset_peak(device: Any = None) -> None:
    """Begin a new peak. Where the system does not allow it for a process, the peak stays that since its start."""
    where = resolve(device)
    if _is_cuda(where):
        torch_module().cuda.reset_peak_memory_stats(where)
        return
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")  # resets the high-water mark of resident memory
    except OSError:
        pass


# ---- history -----------------------------------------------------------------------------------------------


class History:
    """Allocations and frees in the order they happened; of more than max_entries the oldest are dropped, and counted.

    entries, dropped and the rest can be read after the with-block, also when it was left by an exception."""

    def __init__(self, max_entries: int = 100_000, device: Any = None, stacks: bool = True):
        if max_entries < 1:
            raise ValueError(f"max_entries must be at least 1, not {max_entries}")
        self.max_entries, self.device, self.stacks = max_entries, resolve(device), stacks
        self.entries: list[Entry] = []
        self.dropped = self._base_ns = 0
        self._alive: list[Entry] = []
        self._snapshot: dict[str, Any] | None = None
        self._recording: Any = None

    def __enter__(self) -> History:
        if _is_cuda(self.device):
            torch_module().cuda.memory._record_memory_history(max_entries=self.max_entries, stacks="python")
            return self
        from ._collect.backend import Recipe, new_recording
        from .profiler import ProfilerActivity

        recipe = Recipe(activities=frozenset([ProfilerActivity.CPU]), profile_memory=True, stack_per_op=self.stacks)
        self._recording = new_recording(recipe, "memory")
        self._recording.start()
        return self

    def __exit__(self, *_: Any) -> None:
        global _last
        _last = self
        if _is_cuda(self.device):
            memory = torch_module().cuda.memory
            try:
                self._snapshot = memory._snapshot()
            finally:
                memory._record_memory_history(enabled=None)
            return
        self._recording.stop()
        trace = self._recording.trace()
        every, self._base_ns = cpu_entries(trace), base_ns(trace)
        self.dropped = max(0, len(every) - self.max_entries)
        self._totals = _totals(every)
        self.entries = every[self.dropped :]
        self._alive = live_at_end(every)

    @property
    def live(self) -> list[Entry]:
        """Allocations of the history that were not freed in it."""
        return list(self._alive)

    @property
    def snapshot(self) -> dict[str, Any]:
        """In the layout of torch.cuda.memory._snapshot(), and "dropped"."""
        return {
            **(self._snapshot if self._snapshot is not None else snapshot_of(self.entries, self._alive, self._base_ns)),
            "dropped": self.dropped,
        }

    def dump(self, path: Any) -> None:
        """Write the snapshot as a pickle, as torch.cuda.memory._dump_snapshot does."""
        with open(path, "wb") as file:
            pickle.dump(self.snapshot, file)

    def summary(self) -> str:
        """A text for people: torch's own table on a device; on the CPU the totals, and how many entries were
        dropped."""
        if self._snapshot is not None:
            return str(torch_module().cuda.memory_summary(self.device, abbreviated=True))
        return str(self._totals) + (
            f"\n{self.dropped} entries dropped, the oldest; max_entries={self.max_entries}" if self.dropped else ""
        )


class Totals(NamedTuple):
    """Sums of a history: bytes, and how many allocations and frees."""

    current: int  # allocated in the history and alive at its end
    peak: int
    allocated: int
    freed: int
    allocations: int
    frees: int

    def __str__(self) -> str:
        return (
            f"{'current':<18}{human(self.current):>12}\n{'peak':<18}{human(self.peak):>12}\n{'total allocated':<18}{human(self.allocated):>12}\n"
            f"{'total freed':<18}{human(self.freed):>12}\n{'allocations':<18}{self.allocations:>12}\n{'frees':<18}{self.frees:>12}"
        )


def _totals(entries: list[Entry]) -> Totals:
    """Of what the history saw from its allocation on: blocks that are older do not count."""
    alive: dict[int, int] = {}
    now = most = allocated = freed = allocations = frees = 0
    for entry in entries:
        if entry.action == "alloc":
            alive[entry.addr] = entry.size
            allocations, allocated, now = allocations + 1, allocated + entry.size, now + entry.size
            most = max(most, now)
        elif entry.addr in alive:
            size = alive.pop(entry.addr)
            frees, freed, now = frees + 1, freed + size, now - size
    return Totals(now, most, allocated, freed, allocations, frees)


def history(max_entries: int = 100_000, device: Any = None, stacks: bool = True) -> History:
    """Record allocations and frees in a with-block: of tensors on the CPU, or of the device's allocator. stacks: with
    the Python stack of each."""
    return History(max_entries, device, stacks)


def dump(path: Any) -> None:
    """Write the last history as a pickle."""
    if _last is None:
        raise RuntimeError("there is no history yet: record one with `with tachograph.memory.history():`")
    _last.dump(path)


def summary(device: Any = None) -> str:
    """The allocator's figures on a device; on the CPU those of the last history, and what the process takes."""
    where = resolve(device)
    if _is_cuda(where):
        return str(torch_module().cuda.memory_summary(where, abbreviated=True))
    process = f"{'resident':<18}{human(_status('VmRSS')):>12}\n{'resident peak':<18}{human(_status('VmHWM')):>12}"
    if _last is None:
        return process + "\nwhat tensors take is known of a `with tachograph.memory.history():` block"
    return _last.summary() + "\n" + process


# ---- stages of a step --------------------------------------------------------------------------------------

STAGES = (
    "Start",
    "After data",
    "After forward",
    "After loss",
    "After backward",
    "After optimizer step",
    "After zero_grad",
)
WHY = (
    "",
    "the batch",
    "activations kept for backward",
    "the loss and what it keeps",
    "gradients came, activations went",
    "optimizer state, at the first step",
    "gradients went, if zero_grad sets them to None",
)
PHASES = ("forward", "loss", "backward", "optimizer")


class Stage(NamedTuple):
    """Bytes in use at one point of a training step."""

    name: str
    allocated: int  # bytes of live tensors
    reserved: int | None  # bytes the device's allocator holds; None on the CPU, where the allocator holds none back
    delta: int  # to the stage before


class Stages(NamedTuple):
    """rows: the seven stages. peaks: the most that was allocated during each phase, and overall."""

    rows: list[Stage]
    peaks: dict[str, int]
    device: str

    def result(self, model: Any) -> dict[str, float | None]:
        """As one dictionary, in GB of 10^9 bytes: the peaks of forward, backward and optimizer, peak (of the whole
        step, also as peak_gb), parameters_gb, and fragmentation_ratio: the share of what the allocator holds that no
        tensor uses, None on the CPU."""
        parameters = sum(p.numel() * p.element_size() for p in model.parameters())
        last = self.rows[-1]
        unused = None if not last.reserved else 1 - last.allocated / last.reserved
        peaks = {name: self.peaks[name] / 1e9 for name in ("forward", "backward", "optimizer")}
        overall = self.peaks["overall"] / 1e9
        return {
            **peaks,
            "peak": overall,
            "peak_gb": overall,
            "parameters_gb": parameters / 1e9,
            "fragmentation_ratio": unused,
        }

    def __str__(self) -> str:
        lines = [
            f"{'stage':<22}{'allocated':>12}{'change':>12}{'' if self.rows[0].reserved is None else 'reserved':>12}"
        ]
        for row, why in zip(self.rows, WHY):
            reserved = "" if row.reserved is None else human(row.reserved)
            change = ("+" if row.delta >= 0 else "−") + human(abs(row.delta)) if why else ""
            lines.append(f"{row.name:<22}{human(row.allocated):>12}{change:>12}{reserved:>12}  {why}".rstrip())
        peaks = ", ".join(f"{name} {human(size)}" for name, size in self.peaks.items())
        return "\n".join([*lines, f"peaks on {self.device}: {peaks}"])


def _run_step(
    model: Any, loss_fn: Callable[..., Any], optimizer: Any, batch: Any, device: Any, mark: Callable[[int], None]
) -> None:
    mark(0)
    inputs, target = split_batch(batch, device)
    mark(1)
    output = model(inputs)
    mark(2)
    loss = loss_of(loss_fn, output, target)
    mark(3)
    del output
    loss.backward()
    mark(4)
    optimizer.step()
    mark(5)
    optimizer.zero_grad()
    mark(6)


def stages(model: Any, loss_fn: Callable[..., Any], optimizer: Any, batch: Any, *, device: Any = None) -> Stages:
    """Train one step on the batch, (inputs, target) or one object. Returns what was allocated after each of its
    seven stages."""
    where = resolve(device, model)
    measure = _stages_cuda if _is_cuda(where) else _stages_cpu
    allocated, reserved, peaks = measure(where, lambda mark: _run_step(model, loss_fn, optimizer, batch, where, mark))
    before = [allocated[0], *allocated]
    rows = [
        Stage(*row) for row in zip(STAGES, allocated, reserved, (now - then for now, then in zip(allocated, before)))
    ]
    # Between mark i and i + 1: data, forward, loss, backward, optimizer, zero_grad.
    return Stages(rows, {**dict(zip(PHASES, peaks[1:5])), "overall": max(peaks)}, str(where))


def _stages_cuda(device: Any, run: Callable[..., Any]) -> tuple[list[int], list[int | None], list[int]]:
    cuda = torch_module().cuda
    allocated: list[int] = []
    reserved: list[int | None] = []
    peaks: list[int] = []

    def mark(number: int) -> None:
        if number:
            peaks.append(cuda.max_memory_allocated(device))
        cuda.reset_peak_memory_stats(device)
        allocated.append(cuda.memory_allocated(device))
        reserved.append(cuda.memory_reserved(device))

    run(mark)
    return allocated, reserved, peaks


def _live_bytes() -> int:
    """Of all tensors on the CPU that Python knows, each storage once."""
    import gc

    torch = torch_module()
    sizes: dict[int, int] = {}
    for thing in gc.get_objects():
        if not issubclass(type(thing), torch.Tensor):  # type(): asking the object could run its code
            continue
        if thing.device.type == "cpu":
            try:
                storage = thing.untyped_storage()
                sizes[storage.data_ptr()] = storage.nbytes()
            except (RuntimeError, NotImplementedError):
                continue  # a tensor without storage: sparse, meta, of a subclass
        gradient = getattr(thing, "grad", None) if thing.is_leaf else None
        if gradient is not None and not gradient.is_sparse:
            sizes[gradient.untyped_storage().data_ptr()] = gradient.untyped_storage().nbytes()
    return sum(sizes.values())


def _stages_cpu(_device: Any, run: Callable[..., Any]) -> tuple[list[int], list[int | None], list[int]]:
    from ._labels.annotate import record_function

    def mark(number: int) -> None:
        with record_function(f"tachograph.memory#{number}"):
            pass

    base = _live_bytes()
    with History(max_entries=1 << 62, device="cpu", stacks=False) as recorded:
        run(mark)
    trace = recorded._recording.trace()
    times = {
        row["name"]: row["start_ns"]
        for row in trace.sql("SELECT name, start_ns FROM slices WHERE name LIKE 'tachograph.memory#%'")
    }
    marks = [times[f"tachograph.memory#{number}"] for number in range(len(STAGES))]
    allocated, peaks = [], []
    now = most = base
    left = [entry for entry in recorded.entries if entry.time_ns >= marks[0]]
    for moment in marks:
        while left and left[0].time_ns < moment:
            now += left[0].size if left[0].action == "alloc" else -left[0].size
            most = max(most, now)
            left.pop(0)
        allocated.append(now)
        peaks.append(most)
        most = now
    return allocated, [None] * len(marks), peaks[1:]
