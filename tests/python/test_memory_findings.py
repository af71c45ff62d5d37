"""Findings about memory: ten programs and snapshots in which one thing is planted, ten that are healthy."""

import pickle

import pytest

torch = pytest.importorskip("torch")
import snapshots
import tachograph as tg
from torch import nn

pytestmark = pytest.mark.usefixtures("one_torch_thread")
MIB = snapshots.MIB
MEMORY = {
    "memory-leak", "activation-memory", "gradient-memory", "optimizer-memory", "memory-fragmentation", "out-of-memory",
}  # fmt: skip


def record(work, times):
    schedule = tg.schedule(wait=0, warmup=1, active=times, repeat=1)
    with tg.profile(
        activities=[tg.ProfilerActivity.CPU], profile_memory=True, record_shapes=True, with_stack=True, schedule=schedule,
        backend="native",
    ) as prof:  # fmt: skip
        for _ in range(times + 1):
            work()
            prof.step()
    return prof.trace


def training(model, optimizer, *inputs):
    def step():
        optimizer.zero_grad()
        model(*inputs).square().mean().backward()
        optimizer.step()

    return step


def sgd(model):
    return torch.optim.SGD(model.parameters(), 0.1)


# ---- recordings --------------------------------------------------------------------------------------------------


class Keeping:
    """Steps of a small model that keep something each."""

    def __init__(self):
        self.model, self.kept = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64)), []
        self.x = torch.randn(128, 256)
        self.step = training(self.model, sgd(self.model), self.x)

    def losses(self):
        self.step()
        self.kept.append(self.model(self.x).square().mean())

    def outputs(self):
        self.step()
        self.kept.append({"output": self.model(self.x).detach()})

    def windows(self):
        self.step()
        self.kept.append(torch.ones(300, 300))
        del self.kept[:-20]  # longer than the recording


class Catching(nn.Module):
    """Six layers of 64 columns. Each pass keeps copies of so many rows of what they return."""

    def __init__(self, kept_rows):
        super().__init__()
        self.layers, self.kept = nn.ModuleList(nn.Linear(64, 64) for _ in range(6)), []
        self.kept_rows = kept_rows

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
            if self.kept_rows:
                self.kept.append(x[: self.kept_rows].detach().clone())
        return x


class Named(nn.Module):
    """Layers without a number."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(256, 1024), nn.Linear(1024, 1024), nn.Linear(1024, 256)

    def forward(self, x):
        return self.third(torch.tanh(self.second(torch.tanh(self.first(x)))))


def deep():
    return nn.Sequential(*[nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 256)) for _ in range(8)])


def wide(optimizer, rows=2):
    model = nn.Linear(4096, 4096)
    step = training(model, optimizer(model), torch.randn(rows, 4096))
    step()
    return step


PLANTED = {
    "memory-leak losses": lambda: record(Keeping().losses, 6),
    "memory-leak outputs": lambda: record(Keeping().outputs, 6),
    "memory-leak windows": lambda: record(Keeping().windows, 6),
    "activation-memory deep": lambda: record(training(m := deep(), sgd(m), torch.randn(5000, 256)), 1),
    "activation-memory named": lambda: record(training(m := Named(), sgd(m), torch.randn(7000, 256)), 1),
    "gradient-memory": lambda: record(wide(sgd), 1),
    "optimizer-memory": lambda: record(wide(lambda m: torch.optim.Adam(m.parameters())), 1),
}


def healthy():
    model, keep = deep(), Keeping()
    small = training(model, sgd(model), torch.randn(500, 256))
    last = []

    def keeps_the_last():
        last[:] = [torch.randn(300, 300)]
        small()

    def infers():
        with torch.no_grad():
            model(torch.ones(4000, 256))

    def keeps_numbers():
        keep.step()
        keep.kept.append(keep.model(keep.x).square().mean().item())

    def evaluates():
        small()
        if len(last) % 2:
            infers()

    return {"small": small, "the last": keeps_the_last, "inference": infers, "numbers": keeps_numbers, "both": evaluates,
            "balanced": training(m := nn.Sequential(nn.Linear(2048, 2048), nn.Linear(2048, 2048)),
                                 sgd(m), torch.randn(1500, 2048))}  # fmt: skip


NEED_MODULES = {"activation-memory deep"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.frames] if name in NEED_MODULES else []) for name in PLANTED]
)
def test_planted(name):
    trace = PLANTED[name]()
    rows = [row for row in trace.ask("findings").to_dicts() if row["cause"] in MEMORY]
    cause = name.split()[0]
    assert rows and rows[0]["cause"] == cause, rows
    (row,) = [row for row in rows if row["cause"] == cause]
    assert row["saving_bytes"] > 4096 and row["saving_ns"] is None and row["severity"] != "high"
    # what the optimizer keeps was there before the recording: the place is its update
    assert "test_memory_findings.py(" in row["where"], row["where"]
    if name == "memory-leak outputs":
        assert row["saving_bytes"] == 128 * 64 * 4
        assert f"({Keeping.outputs.__code__.co_firstlineno + 2}): outputs" in row["where"]
    if name == "activation-memory deep":
        (all_layers,) = trace.ask("checkpoint", where="layer == '(all)'").to_dicts()
        assert row["saving_bytes"] == max(all_layers["saving_bytes"], row["saving_bytes"])
        assert "torch.utils.checkpoint.checkpoint" in row["advice"] and "ms a step" in row["advice"]
    if name in ("gradient-memory", "optimizer-memory"):
        assert row["saving_bytes"] == pytest.approx(4096 * 4097 * 4, rel=0.01)  # of two moments one


@pytest.mark.parametrize(
    "name", ["small", "the last", "inference", "numbers", "both", pytest.param("balanced", marks=pytest.mark.long)]
)
def test_healthy(name):
    work = healthy()[name]
    work()
    found = {row["cause"] for row in record(work, 5).ask("findings").to_dicts()}
    assert not found & MEMORY, found


@pytest.mark.parametrize(
    "rows, kept_rows, times, first",
    [
        (8192, 8192, 10, "memory-leak"),  # 8 steps keep what one step makes
        (80000, 1000, 5, "activation-memory"),
        (80000, 0, 5, "activation-memory"),
    ],
)
@pytest.mark.frames
def test_what_leaks_is_no_activation(rows, kept_rows, times, first):
    model, x = Catching(kept_rows), torch.randn(rows, 64)
    trace = record(lambda: model(x).square().mean().backward(), times)
    found = {row["cause"]: row for row in trace.ask("findings").to_dicts() if row["cause"] in MEMORY}
    assert next(iter(found)) == first
    assert ("memory-leak" in found) == (kept_rows > 0) and ("activation-memory" in found) == (rows == 80000)
    layers_bytes = 6 * 64 * 4  # a row of what all six return
    leaked = (times - 2) * kept_rows * layers_bytes
    assert sum(row["activation_bytes"] for row in trace.ask("leaks").to_dicts()) == leaked
    peak = {row["category"]: row["net_bytes"] for row in trace.ask("memory", by="category").to_dicts()}
    # what tanh returns in one step, and the copies of all steps
    assert peak["activation"] == pytest.approx((rows + times * kept_rows) * layers_bytes, rel=0.2)
    if rows == 80000:
        of_batch = (peak["activation"] + peak["autograd_detail"] - leaked) / 1e6
        assert found["activation-memory"]["evidence"].startswith(f"{of_batch:.1f} of ")


@pytest.mark.parametrize("parts", [1, 3])
def test_what_is_added_to_gradients_is_of_gradients(parts):
    model = nn.Sequential(nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 8))
    x, weights = torch.randn(8, 2048), 4 * (2048 * 2049 + 8 * 2049)

    def step():
        model.zero_grad()
        for _ in range(parts):
            model(x).square().mean().backward()

    trace = record(step, 3)
    most = {row["category"]: row["net_bytes"] for row in trace.ask("memory", by="category").to_dicts()}
    # all that the batch needs is some vectors of 2048; the first weight's gradient is added to the one that is there
    assert most["gradient"] == pytest.approx(weights + (4 * 2048 * 2048 if parts > 1 else 0), rel=0.02)
    assert most.get("autograd_detail", 0) < 4 * 8 * 2048 * 4


# ---- snapshots ---------------------------------------------------------------------------------------------------


def pool(sizes, used):
    """A segment of blocks of these sizes in MiB, of which those in `used` are taken."""
    device = snapshots.Device(0, 3, 0)
    device.live, at = {}, device.base
    for i, size in enumerate(sizes):
        if i in used:
            device.live[at] = size * MIB - 100
        at += size * MIB
    device.segment_bytes = sum(sizes) * MIB
    return device


def found(tmp_path, device):
    (tmp_path / "a.pickle").write_bytes(pickle.dumps(snapshots.snapshot([device])))
    with tg.open(tmp_path / "a.pickle") as trace:
        return trace.ask("findings").to_dicts()


def test_free_memory_in_pieces(tmp_path):
    (row,) = found(tmp_path, pool([4] * 128, range(0, 128, 2)))
    assert row["cause"] == "memory-fragmentation" and row["share_pct"] == pytest.approx(50, rel=1e-3)
    assert row["saving_bytes"] == pytest.approx(63 * 4 * MIB, rel=1e-3) and "expandable_segments:True" in row["advice"]
    assert row["advice"].endswith(" Now: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False.")


@pytest.mark.parametrize(
    "sizes, used",
    [
        ([256, 256], [0]),  # whole
        ([4] * 128, range(0, 128, 32)),  # four pieces of 124 MB: what comes next fits
        ([48, 4] * 12, range(1, 24, 2)),  # twelve pieces of 48 MB beside blocks of 4
        ([40] * 12 + [8] * 4, range(12)),  # little is free
        ([1] * 64, range(0, 64, 2)),  # little in all
    ],
)
def test_free_memory_that_can_be_used(tmp_path, sizes, used):
    assert not found(tmp_path, pool(sizes, used))


def test_segments_that_are_free_as_a_whole_are_a_cache(tmp_path):
    device = pool([4] * 128, range(0, 128, 2))
    shot = snapshots.snapshot([device])
    (segment,) = shot["segments"]
    blocks = segment["blocks"]
    used = [{**block, "state": "active_allocated"} for block in blocks[:1]]
    one = {**segment, "total_size": blocks[0]["size"], "allocated_size": blocks[0]["size"], "blocks": used}
    free = [
        {**segment, "address": b["address"], "total_size": b["size"], "allocated_size": 0, "active_size": 0,
         "requested_size": 0, "blocks": [{**b, "state": "inactive", "requested_size": 0}]}
        for b in blocks[1:]
    ]  # fmt: skip
    (tmp_path / "a.pickle").write_bytes(pickle.dumps({**shot, "segments": [one, *free]}))
    with tg.open(tmp_path / "a.pickle") as trace:
        assert not [row for row in trace.ask("findings").to_dicts() if row["cause"] == "memory-fragmentation"]


@pytest.mark.parametrize("size, is_forced", [(64, True), (200, False)])
def test_more_was_taken_although_enough_was_free(tmp_path, size, is_forced):
    """Eight pieces of 20 MB are free, 160 MB, when a segment of 64 or 200 MB is taken from the device."""
    device = pool([20] * 16, range(0, 16, 2))
    at = device.base + (1 << 34)
    device.add("segment_alloc", at, size * MIB)
    device.add("alloc", at, size * MIB)
    shot = snapshots.snapshot([device])
    (segment,) = shot["segments"]
    block = {"address": at, "size": size * MIB, "requested_size": size * MIB, "state": "active_allocated", "frames": []}
    more = {"address": at, "total_size": size * MIB, "allocated_size": size * MIB, "active_size": size * MIB,
            "requested_size": size * MIB, "blocks": [block]}  # fmt: skip
    shot["segments"].append({**segment, **more})
    (tmp_path / "a.pickle").write_bytes(pickle.dumps(shot))
    with tg.open(tmp_path / "a.pickle") as trace:
        rows = [row for row in trace.ask("findings").to_dicts() if row["cause"] == "memory-fragmentation"]
        assert len(rows) == is_forced
        assert not rows or "; 1 time it took more from the device although" in rows[0]["evidence"]


def test_an_allocation_that_failed(tmp_path):
    device = snapshots.Device(0, 3, 60)
    device.trace = [e for e in device.trace if e["action"] != "oom"]
    assert not found(tmp_path, device)
    device.add("oom", 123 * MIB, 900 * MIB)
    (row,) = found(tmp_path, device)
    assert row["cause"] == "out-of-memory" and row["saving_bytes"] == 900 * MIB
    assert "1 allocation failed, the last of 943.7 MB" in row["evidence"]
    assert "module_" in row["evidence"].split("most at the peak:")[1]
