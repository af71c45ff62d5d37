"""What memory of a real training step is for: recorded here on the CPU, against what the program itself knows."""

import inspect
import json
import re

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from tachograph import _record
from torch import nn
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("one_torch_thread")
CPU = tg.ProfilerActivity.CPU


def record(work, times=1):
    """The trace of so many calls of work, each a step where there are several; one more comes before them."""
    schedule = tg.schedule(wait=0, warmup=1, active=times, repeat=1) if times > 1 else None
    with tg.profile(
        activities=[CPU], profile_memory=True, record_shapes=True, with_stack=True, schedule=schedule, backend="native"
    ) as prof:
        for _ in range(times + 1 if schedule else 1):
            work()
            prof.step()
    return prof.trace


def training(model, optimizer, *inputs, loss=lambda y: y.square().mean()):
    def step():
        optimizer.zero_grad()
        loss(model(*inputs)).backward()
        optimizer.step()

    return step


def bytes_of(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


def by_category(trace, column="net_bytes"):
    return {row["category"]: row[column] for row in trace.ask("memory", by="category").to_dicts()}


def test_curve_of_a_step(tmp_path):
    """F084: activations rise in the forward pass, and the peak is where adding up says it is."""
    model = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(128, 128), nn.GELU())])
    trace = record(training(model, torch.optim.SGD(model.parameters(), 0.1), torch.randn(256, 128)))
    rows = trace.ask("memory_timeline").to_dicts()
    events = trace.ask("events", by="mark", args=("Bytes", "Addr"), where='name == "[memory]"').to_dicts()
    sizes, now, most, at = {}, 0, 0, None
    before = rows[0]["total"] - (events[0]["Bytes"] if events[0]["Bytes"] > 0 else 0)
    for event in events:
        size = event["Bytes"]
        sizes[event["Addr"]] = size = size if size > 0 else -sizes.get(event["Addr"], -size)
        now += size
        if now > most:
            most, at = now, event["start_ns"]
    peak = trace.ask("memory_timeline", by="peak").to_dicts()[0]
    assert peak["ts_ns"] == at and before + most >= peak["total"] > most
    top = max(range(len(rows)), key=lambda i: rows[i]["activation"])
    forward = [row["activation"] for row in rows[: top + 1]]
    # Linear needs its input, GELU its own: of 12 results of 128 kB all but the last are kept, and the last for the
    # square.
    assert forward == sorted(forward) and forward[-1] >= 12 * 256 * 128 * 4
    assert rows[-1]["activation"] <= 8 and rows[-1]["temporary"] == 0


@pytest.mark.parametrize("optimizer, states", [(torch.optim.SGD, 0), (torch.optim.Adam, 2)])
def test_parameters_gradients_and_state(optimizer, states):
    """F085: to the byte, whatever the optimizer is."""
    model = nn.Linear(37, 11)
    made = optimizer(model.parameters(), 0.01)
    step = training(model, made, torch.randn(5, 37))
    step()
    trace = record(step)
    size = bytes_of(model.parameters())
    assert size == (37 * 11 + 11) * 4
    most = by_category(trace, "peak_net_bytes")
    assert (most["parameter"], most["gradient"]) == (size, size)
    assert most.get("optimizer_state", 0) == states * size + (
        4 * 2 if states else 0
    )  # Adam counts its steps in a float for each parameter
    told = {
        row["tensor"]: row["bytes"]
        for row in trace.ask("memory_blocks", where='known == "registered" and category == "parameter"').to_dicts()
    }
    assert told == {"weight": 37 * 11 * 4, "bias": 11 * 4}


def test_state_and_parameters_that_are_made_while_recording():
    """The model is made in the window: it is told of when the window ends."""
    kept = []

    def work():
        model = nn.Sequential(nn.Linear(50, 20), nn.BatchNorm1d(20))
        step = training(model, torch.optim.Adam(model.parameters()), torch.randn(8, 50))
        step()
        kept.append((model, step))

    most = by_category(record(work), "peak_net_bytes")
    model = kept[0][0]
    assert most["parameter"] == bytes_of(model.parameters()) and most["gradient"] == bytes_of(model.parameters())
    assert most["buffer"] == bytes_of(model.buffers())
    assert most["optimizer_state"] == 2 * bytes_of(model.parameters()) + 4 * 4


def test_a_block_says_where_it_was_made():
    """F086"""
    lines = {}

    def work():
        lines["made"] = inspect.currentframe().f_lineno + 1
        tensor = torch.empty(123_457)
        tensor.fill_(0)
        del tensor

    trace = record(work)
    [block] = trace.ask("memory_blocks", where="bytes == 493828").to_dicts()
    assert block["line"] == f"{block['line'].split('(')[0]}({lines['made']}): work" and block["line"].split("(")[
        0
    ].endswith("test_memory_training.py")
    assert (block["op"], block["known"], block["tensor"]) == ("aten::empty", "place", None)
    assert block["freed_ns"] - block["made_ns"] == block["held_ns"] > 0


class Attention(nn.Module):
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2), -1) @ v


def test_the_largest_allocator_is_the_score_of_math_attention(tachograph, tmp_path):
    """F087"""
    batch, heads, length, size = 2, 4, 160, 16
    q, k, v = (torch.randn(batch, heads, length, size, requires_grad=True) for _ in range(3))
    record(lambda: Attention()(q, k, v).sum().backward()).export(tmp_path / "t.json", "chrome")
    done = tachograph("memory", tmp_path / "t.json", "--top", "10", "--where", 'category != "input"', "--json")
    rows = [
        dict(zip([c["name"] for c in json.loads(done.stdout)["columns"]], row))
        for row in json.loads(done.stdout)["rows"]
    ]
    assert len(rows) >= 10
    assert rows[0]["bytes"] == batch * heads * length * length * 4
    assert any("at the peak" in note for note in json.loads(done.stdout)["notes"])
    done = tachograph("memory", tmp_path / "t.json", "--top", "3")
    assert done.returncode == 0 and "3 of" in done.stdout + done.stderr and "CPU" in done.stdout


@pytest.mark.frames
def test_activations_and_their_owners():
    """F088: of a two-layer network what autograd itself says it saved."""
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
    x, saved = torch.randn(32, 64), {}

    def note(tensor):
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        output = model(x).square().mean()
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()} | {x.untyped_storage().data_ptr()}
    want = sorted(size for address, size in saved.items() if address not in parameters)
    del output
    step = training(model, torch.optim.SGD(model.parameters(), 0.1), x)
    step()
    rows = (
        record(step)
        .ask("memory_blocks", category="activation", where='freed_by ~ "Backward" and bytes > 8', limit=10)
        .to_dicts()
    )
    assert sorted(row["bytes"] for row in rows) == want == [32 * 64 * 4, 32 * 256 * 4]
    relu, last = rows
    assert (relu["module"], relu["forward_op"], relu["freed_by"]) == (
        "1",
        "aten::relu",
        "autograd::engine::evaluate_function: ReluBackward0",
    )
    assert (last["module"], last["forward_op"]) == ("2", "aten::linear") and all(row["held_ns"] > 0 for row in rows)


@pytest.mark.frames
def test_layers_that_are_equal_cost_the_same():
    """F089: twelve layers, the sequence first, so that each layer's result is what the next one keeps."""
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1), 12, nn.LayerNorm(32), enable_nested_tensor=False
    )
    step = training(encoder, torch.optim.SGD(encoder.parameters(), 0.1), torch.randn(16, 4, 32))
    step()
    rows = [
        r
        for r in record(step).ask("memory_blocks", by="layer", category="activation").to_dicts()
        if (r["module"] or "").startswith("layers.")
    ]
    sizes = [row["peak_bytes"] for row in rows]
    assert sorted(row["module"] for row in rows) == sorted(f"layers.{i}" for i in range(12))
    assert max(sizes) <= 1.01 * min(sizes) and min(sizes) > 100_000


def test_leaks_are_found_with_their_line():
    model, kept = nn.Linear(64, 64), []
    step = training(model, torch.optim.SGD(model.parameters(), 0.1), torch.randn(8, 64))

    def leaking():
        step()
        kept.append(model(torch.ones(4, 64)).detach())

    line = leaking.__code__.co_firstlineno + 2
    rows = record(leaking, times=6).ask("leaks").to_dicts()
    assert [(r["steps"], r["blocks"], r["bytes_per_step"], r["module"] is not None) for r in rows] == [
        (4, 4, 4 * 64 * 4, _record.frames() is None)
    ]
    assert f"test_memory_training.py({line}): leaking" in rows[0]["line"]
    healthy = record(step, times=6).ask("leaks")
    assert len(healthy) == 0 and any("nothing grows" in note for note in healthy.notes)


def classifier(kept):
    """A step that is healthy, and what three ways of leaking add to it; the line that keeps is the first of each."""
    model, x = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 8)), torch.randn(16, 64)
    optimizer = torch.optim.Adam(model.parameters())

    def forward_backward():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    def losses_with_their_graph():
        loss = model(x).square().mean()
        kept.append(loss)
        forward_backward()

    def a_dict_that_grows():
        kept.append({f"batch {len(kept)}": model(x).detach().clone()})
        forward_backward()

    def a_hook_that_remembers():
        handle = model[1].register_forward_hook(lambda module, inputs, output: kept.append(output.detach().exp()))
        forward_backward()
        handle.remove()

    return forward_backward, losses_with_their_graph, a_dict_that_grows, a_hook_that_remembers


@pytest.mark.parametrize("which, size", [(1, 16 * 96 * 4 + 4), (2, 16 * 8 * 4), (3, 16 * 96 * 4)])
def test_what_is_kept_in_lists_dicts_and_hooks_is_a_leak(which, size):
    """A loss keeps itself and what its backward would need: the result of ReLU."""
    work = classifier(kept := [])[which]
    work()
    before = len(kept)
    rows = record(work, times=6).ask("leaks").to_dicts()
    assert len(kept) - before == 7 and {(r["steps"], r["device"]) for r in rows} == {(4, "CPU")}
    least = sum(r["bytes_per_step"] for r in rows)
    assert size <= least <= size + 16 * 8 * 4  # with its graph the square keeps the model's result, too
    own = range(work.__code__.co_firstlineno, work.__code__.co_firstlineno + len(inspect.getsource(work).splitlines()))
    lines = [int(re.search(r"test_memory_training.py\((\d+)\)", r["line"])[1]) for r in rows]
    assert lines and all(line in own for line in lines)


def healthy_ways():
    forward_backward = classifier([])[0]
    last, table, window = [], {}, []

    def keeps_the_last():
        last[:] = [torch.randn(100, 100)]
        forward_backward()

    def fills_a_table_once():
        if not table:
            table["positions"] = torch.arange(5000.0).sin()
        forward_backward()

    def accumulates():
        for _ in range(3):
            forward_backward()

    def evaluates_now_and_then():
        forward_backward()
        window.append(None)
        if len(window) % 3 == 0:
            table[len(window)] = torch.ones(1000)  # not in each step: no growth from step to step that is certain

    return [forward_backward, keeps_the_last, fills_a_table_once, accumulates, evaluates_now_and_then]


@pytest.mark.parametrize("which", range(5))
def test_healthy_steps_leak_nothing(which):
    work = healthy_ways()[which]
    work()
    assert not record(work, times=6).ask("leaks").to_dicts()


def programs():
    """Three that take memory differently: (name, what to record)."""
    model, x, images = (
        nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.LayerNorm(256), nn.Linear(256, 64)),
        torch.randn(32, 64),
        torch.randn(8, 3, 32, 32),
    )
    step = training(model, torch.optim.Adam(model.parameters()), x)
    seer = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 10)).eval()
    optimizer, losses = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), []

    def infer():
        with torch.no_grad():
            for _ in range(4):
                seer(images).softmax(-1)

    def accumulate():
        optimizer.zero_grad()
        for _ in range(2):
            model(x).square().mean().backward()
        losses.append(model(x).square().mean())
        optimizer.step()
        losses.clear()

    return {"train": step, "infer": infer, "accumulate": accumulate}


@pytest.mark.parametrize("name", ["train", "infer", "accumulate"])
def test_totals_are_those_of_torchs_own_timeline(name):
    """Bytes at the peak and at the end to the byte, and of what torch does not guess; where it puts temporaries of an
    optimizer among parameters, and calls activation what no backward needs, the categories differ (docs/metrics.md)."""
    from torch.profiler import ProfilerActivity, profile
    from torch.profiler._memory_profiler import Action

    work = programs()[name]
    work()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True, with_stack=True) as prof:
        work()
    theirs, now, most, ends = prof._memory_profile(), 0, 0, {}
    for _, action, (key, version), size in theirs.timeline:
        if action in (Action.PREEXISTING, Action.CREATE):
            now += size
            ends[key] = (theirs._categories.get(key, version), size)
        elif action == Action.INCREMENT_VERSION:
            ends[key] = (theirs._categories.get(key, version + 1), size)
        elif action == Action.DESTROY:
            now -= size
            ends.pop(key, None)
        most = max(most, now)
    trace = record(work)
    (peak,), (final,) = (trace.ask("memory_timeline", by=by).to_dicts() for by in ("peak", "final"))
    seen = ("parameter", "gradient", "optimizer_state", "input")
    unseen = sum(final[c] for c in seen) - sum(
        size for category, size in ends.values() if category and category.name.lower() in seen
    )
    assert unseen >= 0  # of other models of the program, which no operator of the recording was given
    assert (peak["total"] - unseen, final["total"] - unseen) == (most, now)


class Stack(nn.Module):
    def __init__(self, layer, checkpointed):
        super().__init__()
        self.layers = nn.ModuleList(layer() for _ in range(6))
        self.checkpointed = checkpointed

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.checkpointed else layer(x)
        return x


LAYERS = {
    "encoder": (lambda: nn.TransformerEncoderLayer(32, 4, 128, batch_first=True), (8, 64, 32)),
    "perceptron": (
        lambda: nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 64), nn.LayerNorm(64)),
        (512, 64),
    ),
    "convolution": (
        lambda: nn.Sequential(
            nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()
        ),
        (4, 8, 32, 32),
    ),
}


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.frames
def test_what_checkpoints_would_save(kind):
    """F090: said from a recording without, held against a recording with."""
    layer, shape = LAYERS[kind]
    traces = []
    for checkpointed in (False, True):
        model, x = Stack(layer, checkpointed), torch.randn(*shape)
        step = training(model, torch.optim.SGD(model.parameters(), 0.01), x)
        step()
        traces.append(record(step))
        del model, x, step
    plain, real = (trace.ask("memory_timeline", by="peak")["total"][0] for trace in traces)
    *layers, total = traces[0].ask("checkpoint").to_dicts()
    assert (
        total["layer"] == "(all)"
        and total["peak_bytes"] == plain
        and total["saving_bytes"] == plain - total["peak_after_bytes"]
    )
    assert abs(total["peak_after_bytes"] - real) <= 0.15 * real and real < 0.8 * plain
    numbered = [row for row in layers if row["layer"].startswith("layers.")]
    assert len(numbered) == 6 and all(row["saving_bytes"] > 0 and row["recompute_ns"] > 0 for row in numbered)
    assert total["recompute_ns"] == sum(row["recompute_ns"] for row in numbered)


@pytest.mark.frames
def test_activations_that_are_made_again_are_activations():
    model, x = Stack(LAYERS["perceptron"][0], True), torch.randn(512, 64)
    step = training(model, torch.optim.SGD(model.parameters(), 0.01), x)
    step()
    blocks = (
        record(step)
        .ask("memory_blocks", category="activation", where='forward_op == "aten::gelu" or op == "aten::gelu"')
        .to_dicts()
    )
    assert blocks and {row["module"].rsplit(".", 1)[-1] for row in blocks} == {"1"}
