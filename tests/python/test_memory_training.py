"""What memory of a real training step is for: recorded here on the CPU, against what the program itself knows."""
import inspect
import json

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import tachograph as tg  # noqa: E402

CPU = tg.ProfilerActivity.CPU


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


def record(work, times=1):
    """The trace of so many calls of work, each a step where there are several; one more comes before them."""
    schedule = tg.schedule(wait=0, warmup=1, active=times, repeat=1) if times > 1 else None
    with tg.profile(activities=[CPU], profile_memory=True, record_shapes=True, with_stack=True, schedule=schedule, backend="native") as prof:
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
    forward = [row["activation"] for row in rows[:top + 1]]
    # Linear needs its input, GELU its own: of 12 results of 128 kB all but the last are kept, and the last for the square.
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
    assert most.get("optimizer_state", 0) == states * size + (4 * 2 if states else 0)  # Adam counts its steps in a float for each parameter
    told = {row["tensor"]: row["bytes"] for row in trace.ask("memory_blocks", where='known == "registered" and category == "parameter"').to_dicts()}
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
    assert block["line"] == f"{block['line'].split('(')[0]}({lines['made']}): work" and block["line"].split("(")[0].endswith("test_memory_training.py")
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
    rows = [dict(zip([c["name"] for c in json.loads(done.stdout)["columns"]], row)) for row in json.loads(done.stdout)["rows"]]
    assert len(rows) >= 10
    assert rows[0]["bytes"] == batch * heads * length * length * 4
    assert any("at the peak" in note for note in json.loads(done.stdout)["notes"])
    done = tachograph("memory", tmp_path / "t.json", "--top", "3")
    assert done.returncode == 0 and "3 of" in done.stdout + done.stderr and "CPU" in done.stdout


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
    rows = record(step).ask("memory_blocks", category="activation", where='freed_by ~ "Backward" and bytes > 8', limit=10).to_dicts()
    assert sorted(row["bytes"] for row in rows) == want == [32 * 64 * 4, 32 * 256 * 4]
    relu, last = rows
    assert (relu["module"], relu["forward_op"], relu["freed_by"]) == ("1", "aten::relu", "autograd::engine::evaluate_function: ReluBackward0")
    assert (last["module"], last["forward_op"]) == ("2", "aten::linear") and all(row["held_ns"] > 0 for row in rows)


def test_layers_that_are_equal_cost_the_same():
    """F089: twelve layers, the sequence first, so that each layer's result is what the next one keeps."""
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1), 12, nn.LayerNorm(32), enable_nested_tensor=False)
    step = training(encoder, torch.optim.SGD(encoder.parameters(), 0.1), torch.randn(16, 4, 32))
    step()
    rows = [r for r in record(step).ask("memory_blocks", by="layer", category="activation").to_dicts() if (r["module"] or "").startswith("layers.")]
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
    assert [(r["steps"], r["blocks"], r["bytes_per_step"], r["module"] is not None) for r in rows] == [(4, 4, 4 * 64 * 4, True)]
    assert f"test_memory_training.py({line}): leaking" in rows[0]["line"]
    healthy = record(step, times=6).ask("leaks")
    assert len(healthy) == 0 and any("nothing grows" in note for note in healthy.notes)


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
    "perceptron": (lambda: nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 64), nn.LayerNorm(64)), (512, 64)),
    "convolution": (lambda: nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()), (4, 8, 32, 32)),
}


@pytest.mark.parametrize("kind", LAYERS)
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
    assert total["layer"] == "(all)" and total["peak_bytes"] == plain and total["saving_bytes"] == plain - total["peak_after_bytes"]
    assert abs(total["peak_after_bytes"] - real) <= 0.15 * real and real < 0.8 * plain
    numbered = [row for row in layers if row["layer"].startswith("layers.")]
    assert len(numbered) == 6 and all(row["saving_bytes"] > 0 and row["recompute_ns"] > 0 for row in numbered)
    assert total["recompute_ns"] == sum(row["recompute_ns"] for row in numbered)


def test_activations_that_are_made_again_are_activations():
    model, x = Stack(LAYERS["perceptron"][0], True), torch.randn(512, 64)
    step = training(model, torch.optim.SGD(model.parameters(), 0.01), x)
    step()
    blocks = record(step).ask("memory_blocks", category="activation", where='forward_op == "aten::gelu" or op == "aten::gelu"').to_dicts()
    assert blocks and {row["module"].rsplit(".", 1)[-1] for row in blocks} == {"1"}
