"""What the blocks of a memory snapshot were for, from the stacks of its allocations: the sizes of a model's tensors are
known, and so is the order of a made-up history."""

import pickle

import pytest
import snapshots
import tachograph as tg


def frame(filename, name, line=1):
    return {"filename": "/site/" + filename, "name": name, "line": line}


FORWARD = [frame("torch/nn/modules/module.py", "_call_impl"), frame("train.py", "forward")]
BACKWARD = [frame("torch/autograd/graph.py", "_engine_run_backward"), frame("train.py", "step")]
ENGINE = [frame("??", "torch::autograd::Engine::evaluate_function")]
OPTIMIZER = [frame("torch/optim/adam.py", "step"), frame("torch/optim/optimizer.py", "wrapper")]
CLOSURE = BACKWARD + OPTIMIZER
SCHEDULER = [frame("torch/optim/lr_scheduler.py", "step")]
LOADER = [frame("torch/utils/data/_utils/pin_memory.py", "pin_memory")]
# block: bytes, stack, taken at, given back at, category
HISTORY = [
    (1000, LOADER, 0, None, "input"),
    (2000, FORWARD, 1, 4, "temporary"),
    (3000, FORWARD, 2, 30, "activation"),
    (4000, FORWARD, 3, None, "activation"),
    (5000, BACKWARD, 10, 12, "autograd_detail"),
    (6000, ENGINE, 11, 90, "gradient"),
    (7000, BACKWARD, 13, 15, "autograd_detail"),  # after the last that the pass takes, before the optimizer
    (8000, OPTIMIZER, 20, 26, "temporary"),
    (9000, OPTIMIZER, 21, None, "optimizer_state"),
    (10000, SCHEDULER, 22, None, "unknown"),
    (11000, [], 23, None, "unknown"),
    (12000, FORWARD, 40, 44, "temporary"),
    (13000, CLOSURE, 50, None, "gradient"),
    (14000, FORWARD, 60, None, "unknown"),  # no pass comes any more
]


def made(history):
    device = snapshots.Device(0, 1, 0)
    device.live, device.trace, base = {}, [], device.base
    events = []
    for number, (size, frames, taken, given, _) in enumerate(history):
        addr = base + number * snapshots.MIB
        events.append((taken, snapshots.entry("alloc", addr, size, 1000 + taken, frames)))
        if given is None:
            device.live[addr] = size
        else:
            events += [
                (given, snapshots.entry(action, addr, size, 1000 + given, frames))
                for action in ("free_requested", "free_completed")
            ]
    device.trace = [event for _, event in sorted(events, key=lambda e: e[0])]
    return snapshots.snapshot([device])


def test_parts_of_a_step(tmp_path):
    (tmp_path / "a.pickle").write_bytes(pickle.dumps(made(HISTORY)))
    with tg.open(tmp_path / "a.pickle") as trace:
        rows = trace.ask("memory_blocks")
    assert {row["bytes"]: row["category"] for row in rows} == {size: held for size, *_, held in HISTORY}
    assert any(n.startswith("1 of 14 allocations of the snapshot have no stack") for n in rows.notes), rows.notes


def test_without_stacks_it_says_so(tmp_path):
    history = [(size, None, taken, given, "") for size, _, taken, given, _ in HISTORY]
    (tmp_path / "a.pickle").write_bytes(pickle.dumps(made(history)))
    with tg.open(tmp_path / "a.pickle") as trace:
        (row,) = trace.ask("memory_blocks", by="category")
    assert row["category"] == "unknown" and row["blocks"] == 14
    with tg.open(tmp_path / "a.pickle") as trace:
        notes = trace.ask("memory_blocks", by="category").notes
    assert any("14 of 14 allocations of the snapshot have no stack, so their category is unknown" in n for n in notes)


def test_of_a_model_with_known_sizes(tmp_path):
    """Three steps of Adam: two moments and a count per parameter; what relu returns is kept for the backward pass."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("tachograph._record")
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters)
    with tg.memory.history(max_entries=10_000) as history:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(32, 64)).sum().backward()
            optimizer.step()
    history.dump(str(tmp_path / "a.pickle"))
    with tg.open(tmp_path / "a.pickle") as trace:
        held = {row["category"]: row for row in trace.ask("memory_blocks", by="category")}
        stacks = trace.ask("memory_stacks")
    sizes = [p.numel() * 4 for p in parameters]
    assert held["optimizer_state"]["blocks"] == 3 * len(sizes)
    assert held["optimizer_state"]["bytes"] == 2 * sum(sizes) + 4 * len(sizes)
    assert held["gradient"]["blocks"] == 3 * len(sizes) and held["gradient"]["bytes"] == 3 * sum(sizes)
    assert held["gradient"]["peak_bytes"] == sum(sizes)
    assert held["activation"]["bytes"] == 3 * 32 * 64 * 4
    assert not any("with_stack=True" in note for note in stacks.notes)
