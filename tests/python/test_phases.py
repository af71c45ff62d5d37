"""The question phases: the loading of data, forward, loss, backward and the optimizer of a loop without labels. Traces
written by hand, with every number worked out here; the same loop by both recorders."""

import json
import time

import pytest
import tachograph as tg

ORDER = ["data", "forward", "loss", "backward", "optimizer", "other"]
ANNOTATION, OP, FRAME = "user_annotation", "cpu_op", "python_function"


def event(name, ts, dur, cat=OP, tid=1, pid=1, **args):
    return {"ph": "X", "name": name, "cat": cat, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def training_step(at, number):
    """100 us: data 20, forward 5 + 10, loss 6, backward 30 on another thread, optimizer 4 + 12; 13 are nothing."""
    return [
        event(f"ProfilerStep#{number}", at, 100, ANNOTATION),
        event("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 1, 20, ANNOTATION),
        event("aten::stack", at + 2, 10),  # in the loader
        event("Optimizer.zero_grad#SGD.zero_grad", at + 22, 4, ANNOTATION),
        event("forward", at + 27, 20, ANNOTATION),  # a label is no work
        event("aten::linear", at + 28, 5),
        event("aten::addmm", at + 29, 3),  # in aten::linear
        event("aten::relu", at + 34, 10),
        event("aten::cross_entropy_loss", at + 46, 6),
        event("aten::nll_loss_nd", at + 47, 2),
        event("autograd::engine::evaluate_function: NllLossBackward0", at + 53, 10, tid=2),
        event("aten::nll_loss_backward", at + 54, 5, tid=2),
        event("autograd::engine::evaluate_function: AddmmBackward0", at + 63, 20, tid=2),
        event("Optimizer.step#SGD.step", at + 84, 12, ANNOTATION),
        event("aten::add_", at + 85, 8),
        event("aten::normal_", at + 10, 40, tid=9, pid=77),  # a worker process makes data
    ]


@pytest.fixture
def opened(tmp_path):
    def open_them(events):
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({"traceEvents": events}))
        return tg.open(path)

    return open_them


def divided(trace, **arguments):
    rows = trace.ask("phases", **arguments).to_dicts()
    assert [row["phase"] for row in rows] == ORDER
    return {row["phase"]: row["host_ns"] / 1000 for row in rows}, rows


def test_phases_of_a_step(opened):
    trace = opened(training_step(0, 1) + training_step(200, 2) + [event("aten::mul", 120, 50)])  # between the steps
    us, rows = divided(trace)
    assert us == {"data": 20, "forward": 15, "loss": 6, "backward": 30, "optimizer": 16, "other": 13}
    assert sum(row["share_pct"] for row in rows) == pytest.approx(100) and rows[0]["share_pct"] == 20
    assert {row["steps"] for row in rows} == {2} and {row["device_ns"] for row in rows} == {0}
    assert trace.ask("phases").notes == []
    us, rows = divided(trace, step="2")
    assert us["data"] == 20 and rows[0]["steps"] == 1


def test_device_work_belongs_to_the_phase_that_launched_it(opened):
    def launched(at, dur, number, thread=1):
        return [
            event("cudaLaunchKernel", at, 1, "cuda_runtime", tid=thread, correlation=number),
            event("k", at + 500, dur, "kernel", tid=7, pid=0, correlation=number, device=0, stream=7),
        ]

    device = launched(30, 40, 11) + launched(65, 70, 12, thread=2) + launched(86, 5, 13) + launched(150, 9, 14)
    rows = opened(training_step(0, 1) + device).ask("phases").to_dicts()
    assert {row["phase"]: row["device_ns"] / 1000 for row in rows} == {
        "data": 0, "forward": 40, "loss": 0, "backward": 70, "optimizer": 5, "other": 0,
    }  # fmt: skip


def test_a_step_cut_before_its_device_work_is_not_divided(opened):
    """The last step launches what the trace does not hold: the others are divided, as in the question steps."""
    launched = [
        event("cudaLaunchKernel", 30, 1, "cuda_runtime", correlation=11),
        event("k", 40, 20, "kernel", tid=7, pid=0, correlation=11, device=0, stream=7),
    ]
    cut = [event("ProfilerStep#2", 200, 20, ANNOTATION), event("aten::linear", 205, 10)]
    trace = opened(training_step(0, 1) + launched + cut)
    us, rows = divided(trace)
    assert us == {"data": 20, "forward": 15, "loss": 6, "backward": 30, "optimizer": 16, "other": 13}
    assert {row["steps"] for row in rows} == {1} == {len(trace.ask("steps"))}
    assert divided(trace, step="2")[0]["forward"] == 10  # a step that is named counts
    assert "1 step at the end left out, its device work is not in the trace" in trace.report()


def test_the_report_says_what_the_phases_divide(opened):
    """The device ends 100 us after the host: the step has 200 us, and the phases divide the host's 100."""
    late = [
        event("cudaLaunchKernel", 30, 1, "cuda_runtime", correlation=11),
        event("k", 40, 160, "kernel", tid=7, pid=0, correlation=11, device=0, stream=7),
    ]
    text = " ".join(opened(training_step(0, 1) + late).report().replace("\u00a0", " ").split())
    assert "step 200 us" in text and "the rest 13.0 us (13.0 %); of 100 us a step on the host" in text


def test_without_steps_the_recording_is_divided(opened):
    trace = opened([event("aten::mm", 10, 40), event("aten::mse_loss", 60, 10), event("aten::mm", 80, 20)])
    us, rows = divided(trace)
    assert us == {"data": 0, "forward": 60, "loss": 10, "backward": 0, "optimizer": 0, "other": 20}
    assert {row["steps"] for row in rows} == {0}
    said = " ".join(trace.ask("phases").notes)
    for words in ("no steps are marked", "DataLoader", "nothing ran backward", "torch.optim"):
        assert words in said
    assert "of a loss" not in said


def test_names_of_2021(opened):
    """Steps, loaders and optimizers were operators then, and an autograd node had its own name."""
    events = [{**e, "cat": "Operator"} for e in training_step(0, 1) + training_step(200, 2) if e["name"] != "forward"]
    for e in events:
        e["name"] = {
            "autograd::engine::evaluate_function: NllLossBackward0": "NllLossBackward",
            "autograd::engine::evaluate_function: AddmmBackward0": "torch::autograd::AccumulateGrad",
        }.get(e["name"], e["name"])
    us, rows = divided(opened(events))
    assert us == {"data": 20, "forward": 15, "loss": 6, "backward": 30, "optimizer": 16, "other": 13}
    assert {row["steps"] for row in rows} == {2}


def test_what_holds_no_operators_is_refused_with_the_option(opened):
    trace = opened([event("k", 0, 5, "kernel", tid=7, pid=0, device=0, stream=7)])
    with pytest.raises(tg.TachographError, match=r"ProfilerActivity\.CPU") as refused:
        trace.ask("phases")
    assert refused.value.code == "NO_DATA"


def test_the_report_has_them_where_the_program_trains(opened):
    text = " ".join(opened(training_step(0, 1) + training_step(200, 2)).report().replace("\u00a0", " ").split())
    assert (
        "phases data 20.0 us (20.0 %), forward 15.0 us (15.0 %), loss 6.00 us (6.0 %), backward 30.0 us (30.0 %), "
        "optimizer 16.0 us (16.0 %), the rest 13.0 us (13.0 %)" in text
    )
    assert "phases" not in opened([event("aten::mm", 10, 40), event("aten::mm", 80, 20)]).report()


@pytest.mark.parametrize("whose", ["ours", "torch's"])
def test_a_loop_without_labels(tmp_path, whose):
    """Sleeps of 2, 3, 4 and 5 ms stand in a data set, a module, the backward of a function and an optimizer."""
    torch = pytest.importorskip("torch")

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 40

        def __getitem__(self, index):
            time.sleep(0.001)
            return torch.ones(4)

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            time.sleep(0.003)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            time.sleep(0.004)
            return gradient * 2

    class Slower(torch.optim.SGD):
        def step(self, closure=None):
            time.sleep(0.005)
            return super().step(closure)

    model = torch.nn.Linear(4, 4)
    optimizer = Slower(model.parameters(), lr=0.1)
    profiler = tg if whose == "ours" else torch.profiler
    with profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=profiler.schedule(wait=1, warmup=1, active=6, repeat=1),
    ) as prof:
        for x in torch.utils.data.DataLoader(Data(), batch_size=2):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(Slow.apply(model(x)), x).backward()
            optimizer.step()
            prof.step()
            if prof.step_num == 9:
                break
    path = str(tmp_path / "trace.json")
    prof.export_chrome_trace(path)
    with tg.open(path) as trace:
        ms, rows = divided(trace)
        counted = rows[0]["steps"]  # 6 without the first one, where the recording made it longer
        assert counted in (5, 6) and trace.ask("phases").notes == []
    least = {"data": 2, "forward": 3, "loss": 0.001, "backward": 4, "optimizer": 5, "other": 0}
    for phase, bound in least.items():
        assert ms[phase] / 1000 >= bound, (phase, ms)
    if whose == "ours":
        found = prof.phases()
        assert found[:6] == pytest.approx([ms[phase] / 1000 for phase in ORDER], rel=1e-3) and found.steps == counted
