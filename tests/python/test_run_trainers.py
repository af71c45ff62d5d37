"""`tachograph run` on loops as trainers write them: the steps are the program's, whole, and nothing but them."""

import pytest
import tachograph as tg
from test_run import program, run  # noqa: F401  program is a fixture

pytest.importorskip("torch")

# Before training two batches of the validation set are tried; epochs end by count, so that no iterator comes to its
# end; the whole step, zero_grad with it, is a closure of the optimizer's.
CLOSURE = """
    import itertools, torch
    from torch.utils.data import DataLoader
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.Adam(model.parameters())
    training, validation = DataLoader(torch.randn(160, 8), batch_size=8), DataLoader(torch.randn(64, 8), batch_size=8)

    def validate(batches):
        with torch.no_grad():
            for x in itertools.islice(validation, batches):
                model(x).tanh()

    def closure():
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        return loss

    validate(2)
    for epoch in range(4):
        batches = iter(training)
        for _ in range(len(training)):
            x = next(batches)
            optimizer.step(closure)
        validate(8)
"""


@pytest.mark.long
def test_a_trainer_with_closures_and_validation_between_epochs(program, tmp_path):
    under = run("-o", "out", "--steps", "30", program(CLOSURE), cwd=tmp_path)
    assert under.returncode == 0 and "optimizer steps" in under.stderr, under.stderr
    with tg.open(tmp_path / "out" / "trace.tacho") as trace:
        steps = [row for row in trace.ask("steps") if str(row["step"]).isdigit()]
        named = [
            row
            for row in trace.ask("events")
            if row["name"].startswith(("Optimizer.step#", "enumerate(DataLoader)", "aten::tanh"))
        ]
    assert len(steps) == 30
    assert {"aten::tanh"} < {row["name"] for row in named}  # the window crosses the end of an epoch
    for step in steps:
        inside = [row for row in named if step["start_ns"] <= row["start_ns"] < step["start_ns"] + step["total_ns"]]
        assert [row["name"].split("#")[0] for row in inside] == ["enumerate(DataLoader)", "Optimizer.step"]
