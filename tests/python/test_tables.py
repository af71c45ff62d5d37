"""EventList and its tables, over traces written by hand: every number and every line is worked out here."""

import json
import pickle
import re
import textwrap
import warnings

import pytest
import tachograph as tg
from tachograph._events.event_list import EventList, FunctionEvent, FunctionEventAvg
from tachograph._events.table import SORT_KEYS


class Shown:
    """The tables of a profile."""

    def __init__(self, use_device=None, profile_memory=False, with_flops=False):
        self.use_device, self.profile_memory, self.with_flops = use_device, profile_memory, with_flops


def op(name, ts, dur, tid=1, cat="cpu_op", **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}


def memory(ts, size, device=0, tid=1):
    return {
        "ph": "i",
        "s": "t",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": 1,
        "tid": tid,
        "ts": ts,
        "args": {"Device Type": device, "Device Id": 0, "Bytes": size, "Addr": 4096},
    }


# Two steps of a linear layer and a relu; a kernel; memory of two threads at the same time.
TRAINING = [
    op("ProfilerStep#0", 0, 100, cat="user_annotation", **{"External id": 1}),
    op(
        "aten::linear",
        10,
        50,
        **{"External id": 2, "Input Dims": [[4, 8], [16, 8], [16]], "Sequence number": 3, "Fwd thread id": 0},
    ),
    op(
        "aten::addmm",
        20,
        30,
        **{"External id": 3, "Input Dims": [[16], [4, 8], [8, 16], [], []], "Concrete Inputs": ["", "", "", "1", "1"]},
    ),
    op("cudaLaunchKernel", 25, 5, cat="cuda_runtime", **{"External id": 3, "correlation": 77}),
    op("aten::relu", 70, 10, **{"External id": 4, "Input Dims": [[4, 16]]}),
    op("ProfilerStep#1", 100, 100, cat="user_annotation", **{"External id": 5}),
    op("aten::cat", 110, 20, **{"External id": 6, "Input Dims": [[[4, 16], [4, 16]], []]}),
    op("aten::relu", 140, 20, **{"External id": 7, "Input Dims": [[8, 16]]}),
    {
        "ph": "X",
        "cat": "kernel",
        "name": "gemm",
        "pid": 0,
        "tid": 7,
        "ts": 40,
        "dur": 25,
        "args": {
            "External id": 3,
            "correlation": 77,
            "device": 0,
            "stream": 7,
            "grid": [4, 1, 1],
            "registers per thread": 32,
        },
    },
    memory(35, 2048),
    memory(36, 4096, tid=2),
    memory(75, 512),
    memory(78, -256),
    memory(210, -2048),
]
PYTHON = [
    op("train.py(1): <module>", 0, 100, cat="python_function", **{"Python id": 1}),
    op("train.py(7): left", 10, 20, cat="python_function", **{"Python id": 2}),
    op("aten::add", 12, 8),
    op("train.py(9): right", 40, 30, cat="python_function", **{"Python id": 3}),
    op("<built-in method add of Tensor object at 0x7f01>", 44, 20, cat="python_function", **{"Python id": 4}),
    op("aten::add", 45, 4),
]


@pytest.fixture
def opened(tmp_path):
    def open_events(events):
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({"traceEvents": events}))
        return tg.open(path)

    return open_events


@pytest.fixture
def training(opened):
    return EventList.from_trace(opened(TRAINING), Shown("cuda", True, True))


def by_key(events):
    return {(e.key, e.device_type.name): e for e in events}


# ---- numbers -----------------------------------------------------------------------------------------------


def test_rows_come_in_the_order_of_their_first_event(training):
    assert [e.key for e in training.key_averages()] == [
        "ProfilerStep*",
        "aten::linear",
        "aten::addmm",
        "cudaLaunchKernel",
        "[memory]",
        "gemm",
        "aten::relu",
        "aten::cat",
    ]


def test_times(training):
    rows = by_key(training.key_averages())
    step, linear, addmm = rows["ProfilerStep*", "CPU"], rows["aten::linear", "CPU"], rows["aten::addmm", "CPU"]
    assert (step.count, step.cpu_time_total, step.self_cpu_time_total, step.cpu_time) == (2, 200, 100, 100)
    assert (step.device_time_total, step.self_device_time_total) == (25, 0)
    assert (
        linear.cpu_time_total,
        linear.self_cpu_time_total,
        linear.device_time_total,
        linear.self_device_time_total,
    ) == (50, 20, 25, 0)
    assert (addmm.cpu_time_total, addmm.self_cpu_time_total, addmm.self_device_time_total) == (
        30,
        25,
        25,
    )  # the launch is a child
    kernel = rows["gemm", "CUDA"]
    assert (kernel.cpu_time_total, kernel.self_device_time_total, kernel.is_user_annotation) == (0, 25, False)
    assert training.self_cpu_time_total == 200


def test_memory_belongs_to_the_operator_of_its_thread(training):
    rows = by_key(training.key_averages())
    assert rows["aten::addmm", "CPU"].self_cpu_memory_usage == 2048  # not what thread 2 allocated meanwhile
    assert (
        rows["aten::linear", "CPU"].cpu_memory_usage == 2048 and rows["aten::linear", "CPU"].self_cpu_memory_usage == 0
    )
    assert rows["aten::relu", "CPU"].self_cpu_memory_usage == 256
    assert rows["ProfilerStep*", "CPU"].cpu_memory_usage == 2304
    left = rows["[memory]", "CPU"]
    assert (left.count, left.cpu_time_total, left.self_cpu_memory_usage) == (2, 0, 4096 - 2048)


def test_flops_are_those_of_the_call_itself(training):
    rows = by_key(training.key_averages())
    assert rows["aten::addmm", "CPU"].flops == 2 * 4 * 8 * 16
    assert rows["aten::linear", "CPU"].flops == rows["ProfilerStep*", "CPU"].flops == 0


def test_shapes_tell_calls_apart_and_lists_of_tensors_do_not(training):
    rows = {(e.key, str(e.input_shapes)): e.count for e in training.key_averages(group_by_input_shapes=True)}
    assert rows["aten::relu", "[[4, 16]]"] == rows["aten::relu", "[[8, 16]]"] == 1
    assert rows["aten::cat", "[[], []]"] == 1
    assert rows["ProfilerStep*", "[]"] == 2
    assert all(e.input_shapes == "" for e in training.key_averages())


def test_repeated_names_are_one_call(opened):
    events = EventList.from_trace(
        opened([op("aten::f.out", 0, 10), op("aten::f.Tensor", 1, 8), op("aten::f", 2, 6), op("aten::g", 3, 4)])
    )
    rows = by_key(events.key_averages())
    assert [e.key for e in events] == ["aten::f", "aten::g"]
    assert (rows["aten::f", "CPU"].count, rows["aten::f", "CPU"].self_cpu_time_total) == (1, 6)
    assert events[1].cpu_parent is events[0] and events[0].cpu_children == [events[1]]


def test_overloads(opened):
    events = EventList.from_trace(
        opened([op("aten::add.Tensor", 0, 1), op("aten::add.out", 2, 1), op("aten::add.Tensor", 4, 1)])
    )
    assert [(e.key, e.overload_name, e.count) for e in events.key_averages(group_by_overload_name=True)] == [
        ("aten::add", "Tensor", 2),
        ("aten::add", "out", 1),
    ]
    assert [(e.key, e.overload_name, e.count) for e in events.key_averages()] == [("aten::add", "", 3)]


def test_helpers_of_the_profiler_have_no_row(opened):
    hidden = [
        "profiler::_record_function_enter",
        "profiler::_record_function_enter_new",
        "profiler::_record_function_exit",
        "aten::is_leaf",
        "aten::output_nr",
        "aten::_version",
    ]
    events = EventList.from_trace(
        opened([op("aten::f", 0, 100)] + [op(name, 10 + i, 1) for i, name in enumerate(hidden)])
    )
    assert [(e.name, e.self_cpu_time_total) for e in events] == [("aten::f", 100)]


def test_python_functions_are_left_out_unless_asked_for(opened):
    events = EventList.from_trace(opened(PYTHON))
    assert [(e.key, e.count) for e in events.key_averages()] == [("aten::add", 2)]
    rows = {e.key: e for e in events.key_averages(include_python_functions=True)}
    assert len(rows) == 5 and rows["train.py(9): right"].self_cpu_time_total == 10
    assert len(events) == 6 and sum(e.is_python_function for e in events) == 4
    averages, full = events.key_averages(), events.key_averages(include_python_functions=True)
    assert averages.python_time_left_out == 50 + 12 + 10 + 16 and full.python_time_left_out == 0
    assert EventList(list(events)).key_averages().python_time_left_out == 88
    assert averages.table(left_out=True) == averages.table() + "Self CPU time of Python functions, left out: 88.000us\n"
    assert events.total_average().count == 6


def test_shares_stay_below_100_where_what_lies_in_a_step_has_no_row(opened):
    """A step of 100 us holds a Python function of 90 and that one an operator of 10: of only the rows shown the step
    would be 100 of 20 us, 500 %."""
    events = EventList.from_trace(
        opened(
            [
                {**op("ProfilerStep#1", 0, 100), "cat": "user_annotation"},
                {**op("train.py(3): step", 5, 90), "cat": "python_function"},
                op("aten::add", 10, 10),
            ]
        )
    )
    averages = events.key_averages()
    text = averages.table()
    assert [(e.key, e.self_cpu_percent, e.total_cpu_percent) for e in averages] == [
        ("ProfilerStep*", "10.00%", "100.00%"),
        ("aten::add", "10.00%", "10.00%"),
    ]
    assert text.endswith("Self CPU time total: 100.000us\n")
    # The rows that the text shows add up to that total: 80 of the 100 us are the Python function's own.
    rows = [re.split(r" {2,}", line.strip()) for line in text.splitlines() if "%" in line and "Self CPU %" not in line]
    assert [row[:3] for row in rows] == [
        ["ProfilerStep*", "10.00%", "10.000us"],
        ["aten::add", "10.00%", "10.000us"],
        ["Python, left out", "80.00%", "80.000us"],
    ]
    assert rows[-1][3:] == ["--"] * 4
    assert "left out" not in events.key_averages(include_python_functions=True).table()
    # Of what is shown where that can be: as in torch 2.15.
    averages = EventList.from_trace(
        opened([{**op("train.py(3): step", 0, 90), "cat": "python_function"}, op("aten::add", 10, 10)])
    ).key_averages()
    assert averages.table().endswith("Self CPU time total: 10.000us\n") and averages[0].self_cpu_percent == "100.00%"


def test_call_sites_are_distinguished(opened):
    rows = EventList.from_trace(opened(PYTHON)).key_averages(group_by_stack_n=2)
    assert [(e.key, e.count, e.stack) for e in rows] == [
        ("aten::add", 1, ["train.py(7): left", "train.py(1): <module>"]),
        ("aten::add", 1, ["<built-in method add of Tensor object>", "train.py(9): right"]),
    ]


def test_lines_that_were_run_tell_calls_apart(opened):
    """A frame is named by the first line of its function; where a call says its place, that line stands in the
    stack."""
    python = {"cat": "python_function"}
    events = EventList.from_trace(
        opened(
            [
                op("net.py(1): <module>", 0, 100, **python, **{"Python id": 1}),
                op("net.py(7): forward", 10, 80, **python, **{"Python id": 2, "CallFrom": "net.py:40"}),
                op(
                    "aten::add", 12, 8, CallFrom="net.py:9", **{"Call stack": "net.py(7): forward;net.py(1): <module>;"}
                ),
                op("aten::add", 22, 8, CallFrom="net.py:12"),
                op("aten::add", 32, 8, CallFrom="net.py:12"),
                op(
                    "<built-in method add of type object at 0x7f>",
                    50,
                    20,
                    **python,
                    **{"Python id": 3, "CallFrom": "net.py:15"},
                ),
                op("aten::add", 55, 8, CallFrom="net.py:15"),
                op("aten::mul", 80, 8),
            ]
        )
    )
    rows = [(e.key, e.count, e.stack) for e in events.key_averages(group_by_stack_n=5)]
    outer = "net.py(40): <module>"
    assert rows == [
        ("aten::add", 1, ["net.py(9): forward", outer]),
        ("aten::add", 2, ["net.py(12): forward", outer]),
        ("aten::add", 1, ["<built-in method add of type object>", "net.py(15): forward", outer]),
        ("aten::mul", 1, ["net.py(7): forward", "net.py(1): <module>"]),
    ]
    stacks = [e.stack for e in events if e.name.startswith("aten::")]
    assert stacks[0] == ["net.py(9): forward", outer] and stacks[3][1:] == ["net.py(15): forward", outer]
    assert stacks[4] == ["net.py(7): forward", "net.py(1): <module>"]


def test_backward_operators_have_the_stack_of_their_forward_operator(opened):
    events = EventList.from_trace(
        opened(
            [
                op("train.py(1): <module>", 0, 100, cat="python_function", **{"Python id": 1}),
                op("model.py(5): forward", 10, 10, cat="python_function", **{"Python id": 2}),
                op("aten::mul", 12, 4, **{"External id": 1, "Sequence number": 8, "Fwd thread id": 0}),
                op("autograd.py(3): backward", 40, 40, cat="python_function", **{"Python id": 3}),
                op(
                    "autograd::engine::evaluate_function: MulBackward0",
                    50,
                    20,
                    **{"External id": 2, "Sequence number": 8, "Fwd thread id": 1},
                ),
                op("aten::mul", 55, 5, **{"External id": 3}),
                op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 72, 4, **{"External id": 4}),
                {"ph": "s", "id": 1, "pid": 1, "tid": 1, "ts": 12, "cat": "fwdbwd", "name": "fwdbwd"},
                {"ph": "f", "bp": "e", "id": 1, "pid": 1, "tid": 1, "ts": 50, "cat": "fwdbwd", "name": "fwdbwd"},
            ]
        )
    )
    forward = ["model.py(5): forward", "train.py(1): <module>"]
    rows = [(e.key, e.count, e.stack) for e in events.key_averages(group_by_stack_n=9)]
    assert rows == [
        ("aten::mul", 2, forward),
        ("autograd::engine::evaluate_function: MulBackward0", 1, forward),
        ("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 1, []),
    ]
    assert [(e.stack, e.scope) for e in events if not e.is_python_function] == [
        (forward, 0),
        (forward, 0),  # evaluate_function is a function in torch; the node in it has scope 1
        (forward, 0),
        ([], 0),
    ]


# ---- text --------------------------------------------------------------------------------------------------


def test_table_of_all_columns(training):
    lines = (
        training.key_averages(group_by_input_shapes=True)
        .table(sort_by="self_cuda_time_total", row_limit=2)
        .splitlines()
    )
    assert [part.strip() for part in lines[1].split("  ") if part] == [
        "Name",
        "Self CPU %",
        "Self CPU",
        "CPU total %",
        "CPU total",
        "CPU time avg",
        "Self CUDA",
        "Self CUDA %",
        "CUDA total",
        "CUDA time avg",
        "CPU Mem",
        "Self CPU Mem",
        "# of Calls",
        "Input Shapes",
        "Total KFLOPs",
    ]
    assert lines[0] == lines[2] == lines[-3] == "".join("-" * width + "  " for width in [20] + [12] * 12 + [35, 12])
    assert (
        lines[3].split()
        == (
            "aten::addmm 12.50% 25.000us 15.00% 30.000us 30.000us 25.000us 100.00% 25.000us 25.000us 2.00 KB 2.00 KB "
            "1 [[16], [4, 8], [8, 16], [], []] 1.024"
        ).split()
    )
    assert (
        lines[4].split()
        == "gemm 0.00% 0.000us 0.00% 0.000us 0.000us 25.000us 100.00% 25.000us 25.000us 0 B 0 B 1 [] --".split()
    )
    assert lines[-2:] == ["Self CPU time total: 200.000us", "Self CUDA time total: 25.000us"]


def test_table_to_the_letter(opened):
    events = EventList.from_trace(
        opened([op("aten::linear", 0, 1500), op("aten::addmm", 100, 1000), op("aten::relu", 2000, 500.25)]), Shown()
    )
    assert events.key_averages().table(sort_by="self_cpu_time_total", header="A header") == textwrap.dedent("""\
        ====================================================================================================
        A header
        ----------------  ------------  ------------  ------------  ------------  ------------  ------------  
                    Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls  
        ----------------  ------------  ------------  ------------  ------------  ------------  ------------  
             aten::addmm        49.99%       1.000ms        49.99%       1.000ms       1.000ms             1  
              aten::relu        25.01%     500.250us        25.01%     500.250us     500.250us             1  
            aten::linear        25.00%     500.000us        74.99%       1.500ms       1.500ms             1  
        ----------------  ------------  ------------  ------------  ------------  ------------  ------------  
        Self CPU time total: 2.000ms
        """)


def test_empty_list_is_an_empty_text(opened):
    events = EventList.from_trace(opened([{"ph": "i", "name": "x", "pid": 1, "tid": 1, "ts": 1}]), Shown())
    assert events.table() == events.key_averages().table() == "" and events.key_averages() == [] and not events


def test_stacks_and_flops_stand_under_their_own_headers(opened):
    events = EventList.from_trace(
        opened(
            [
                op("models/module.py(17): forward", 0, 10, cat="python_function", **{"Python id": 1}),
                op("aten::mul", 1, 2, **{"Input Dims": [[10, 10], [10, 10]]}),
            ]
        ),
        Shown(with_flops=True),
    )
    lines = events.key_averages(group_by_stack_n=1).table().splitlines()
    head, row, blank = lines[1], lines[3], lines[4]
    assert head.index("Source Location") == row.index("models/module.py(17): forward")
    assert head.index("Total FLOPs") + len("Total FLOPs") == row.index("100.000") + len("100.000")
    assert blank.strip() == ""


@pytest.mark.parametrize("limit, rows", [(1, 1), (3, 3), (100, 8), (-1, 8), (0, 0)])
def test_row_limit(training, limit, rows):
    text = training.key_averages().table(row_limit=limit).splitlines()
    assert len(text) == rows + 6


def test_long_names_shapes_and_sources_are_cut(opened):
    name = "aten::" + "x" * 60
    events = EventList.from_trace(
        opened(
            [
                op("/a/very/long/path/to/a/module.py(1): f", 0, 10, cat="python_function", **{"Python id": 1}),
                op(name, 1, 2, **{"Input Dims": [[i] for i in range(30)]}),
            ]
        ),
        Shown(),
    )
    rows = events.key_averages(group_by_input_shapes=True, group_by_stack_n=1)
    row = rows.table(max_name_column_width=20, max_src_column_width=16, max_shapes_column_width=10).splitlines()[3]
    assert row.startswith(name[:17] + "...") and "[[0], [1],  " in row and row.rstrip().endswith("  ...dule.py(1): f")


@pytest.mark.parametrize("unit, text", [("s", "0.000s"), ("ms", "0.200ms"), ("us", "200.000us"), (None, "200.000us")])
def test_time_unit(training, unit, text):
    assert f"Self CPU time total: {text}" in training.key_averages().table(time_unit=unit)


def test_top_level_only(training):
    text = training.key_averages().table(top_level_events_only=True)
    assert (
        "This report only display top-level ops statistics" in text
        and "ProfilerStep*" in text
        and "aten::linear" not in text
    )


# ---- sorting -----------------------------------------------------------------------------------------------

OLD_KEYS = [
    "cuda_time",
    "cuda_time_total",
    "self_cuda_time_total",
    "cuda_memory_usage",
    "self_cuda_memory_usage",
    "xpu_time_total",
    "self_xpu_memory_usage",
    "privateuse1_time_total",
]


@pytest.mark.parametrize("key", list(SORT_KEYS) + OLD_KEYS)
def test_every_sort_key(training, key):
    rows = training.key_averages()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shown = [line.split()[0] for line in rows.table(sort_by=key).splitlines()[3:-3]]
    attribute = key.replace("cuda", "device").replace("xpu", "device").replace("privateuse1", "device")
    assert shown == [e.key for e in sorted(rows, key=lambda e: getattr(e, attribute), reverse=True)]


@pytest.mark.parametrize(
    "wrong, right",
    [
        ("calls", "count"),
        ("cpu_time_totl", "cpu_time_total"),
        ("self_cuda_time", "self_device_time_total"),
        ("FLOPs", "flops"),
        ("cuda_total", "device_time_total"),
    ],
)
def test_wrong_sort_key_names_the_right_one(training, wrong, right):
    with pytest.raises(AttributeError, match=f"did you mean sort_by='{right}'"):
        training.key_averages().table(sort_by=wrong)


# ---- the names of other years ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "old", ["cuda_time", "cuda_time_total", "self_cuda_time_total", "cuda_memory_usage", "self_cuda_memory_usage"]
)
def test_old_attributes_warn_and_are_equal(training, old):
    for event in (training.key_averages()[2], training[1]):
        with pytest.warns(FutureWarning, match=old):
            value = getattr(event, old)
        assert value == getattr(event, old.replace("cuda", "device"))


def test_metadata_of_device_work(training):
    kernel = next(e for e in training if e.name == "gemm")
    assert kernel.metadata["grid"] == [4, 1, 1] and kernel.metadata["registers per thread"] == 32
    with pytest.warns(FutureWarning):
        assert kernel.event_metadata.registers_per_thread == 32
    with pytest.warns(FutureWarning):
        assert json.loads("{" + kernel.metadata_json + "}")["stream"] == 7
    assert training[0].metadata is None


# ---- events one by one -------------------------------------------------------------------------------------


def test_events(training):
    linear, addmm = (next(e for e in training if e.name == n) for n in ("aten::linear", "aten::addmm"))
    assert linear.cpu_parent.trace_name == "ProfilerStep#0" and linear.cpu_parent.name == "ProfilerStep*"
    assert linear.cpu_children == [addmm] and addmm.cpu_parent is linear
    assert (linear.id, linear.sequence_nr, linear.thread, linear.count) == (2, 3, 1, 1)
    assert linear.input_shapes == [[4, 8], [16, 8], [16]] and addmm.concrete_inputs == [None, None, None, 1, 1]
    assert (linear.time_range.start, linear.time_range.end, linear.time_range.elapsed_us()) == (10, 60, 50)
    assert addmm.kernels == [("gemm", 0, 25.0)] and linear.kernels == []
    cat = next(e for e in training if e.name == "aten::cat")
    assert cat.input_shapes == [[], []] and cat.structured_input_shapes == [[[4, 16], [4, 16]], []]
    assert [e.time_range.start for e in training] == sorted(e.time_range.start for e in training)


def test_events_without_numbers_have_one_each(opened):
    events = EventList.from_trace(opened(PYTHON))
    assert [e.id for e in events if e.is_python_function] == [0] * 4
    assert len({e.id for e in events if not e.is_python_function} - {0}) == 2


def test_a_total_is_self_plus_children(training):
    for event in training:
        assert event.cpu_time_total == pytest.approx(
            event.self_cpu_time_total + sum(c.cpu_time_total for c in event.cpu_children)
        )
        if event.device_type.name == "CPU":
            assert event.device_time_total == pytest.approx(
                event.self_device_time_total + sum(c.device_time_total for c in event.cpu_children)
            )
            assert event.cpu_memory_usage == event.self_cpu_memory_usage + sum(
                c.cpu_memory_usage for c in event.cpu_children
            )


def test_a_table_makes_no_events(training):
    training.key_averages(group_by_input_shapes=True).table(sort_by="count")
    training.total_average()
    assert training._parts == [] and list.__len__(training) == 0


def test_it_is_a_list(training):
    names = [e.name for e in training]
    assert isinstance(training, list) and len(training) == len(names) == 11
    assert training[-1] is training[10] and [e.name for e in training[2:4]] == names[2:4] and training[0] in training
    assert [e.name for e in reversed(training)] == names[::-1] and sorted(training, key=lambda e: e.name)[
        0
    ].name == min(names)
    with pytest.raises(IndexError):
        training[11]
    before = training.key_averages()
    first = training.pop(0)
    assert first.name == "ProfilerStep*" and len(training) == 10
    assert training.key_averages()[0].count == before[0].count - 1  # a list that was changed is summed up as it now is


def test_lists_by_hand_follow_the_same_rules(training):
    copy = EventList(list(training), use_device="cuda", profile_memory=True, with_flops=True)
    assert copy.key_averages(True).table() == training.key_averages(True).table()
    assert copy.self_cpu_time_total == pytest.approx(training.self_cpu_time_total)
    assert repr(copy.total_average()) == repr(training.total_average())


def test_events_by_hand():
    parent, child = FunctionEvent(1, "aten::f", 7, 0, 10), FunctionEvent(2, "aten::g", 7, 2, 6, flops=5)
    parent.append_cpu_child(child)
    child.set_cpu_parent(parent)
    child.append_kernel("k", 0, 3)
    assert (parent.self_cpu_time_total, child.self_cpu_time_total, parent.device_time_total) == (6, 4, 0)
    child.use_device = parent.use_device = "cuda"
    assert (parent.device_time_total, parent.self_device_time_total) == (3, 0)
    average = FunctionEventAvg()
    average += child
    average.add(child)
    assert (average.key, average.count, average.cpu_time_total, average.cpu_time, average.flops) == (
        "aten::g",
        2,
        8,
        4,
        10,
    )
    with pytest.raises(AssertionError):
        average.add(parent)


def test_averages_and_events_can_be_pickled(training):
    for events in (training, training.key_averages()):
        copy = pickle.loads(pickle.dumps(events))
        assert [repr(e) for e in copy][2:4] != [] and [e.key for e in copy] == [e.key for e in events]
        assert copy.key_averages().table() == events.key_averages().table() or copy[0].count


def test_several_recordings_in_one_list(tmp_path):
    traces = []
    for number, us in enumerate((10, 30)):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps({"traceEvents": [op("aten::add", 0, us), op("aten::mul", 50, number + 1)]}))
        traces.append(tg.open(path))
    events = EventList.from_traces(traces, Shown())
    assert [e.cpu_time_total for e in events] == [30, 2, 10, 1]  # the newest first
    assert [(e.key, e.count, e.cpu_time_total) for e in events.key_averages()] == [
        ("aten::add", 2, 40),
        ("aten::mul", 2, 3),
    ]
    assert events.self_cpu_time_total == events.total_average().self_cpu_time_total == 43


# ---- files -------------------------------------------------------------------------------------------------


def test_stacks_for_flame_graphs(opened, tmp_path):
    EventList.from_trace(opened(PYTHON), Shown()).export_stacks(tmp_path / "stacks.txt", "self_cpu_time_total")
    lines = dict(line.rsplit(" ", 1) for line in (tmp_path / "stacks.txt").read_text().splitlines())
    root, method = "train.py(1):_<module>", "<built-in_method_add_of_Tensor_object>"
    assert {k: int(v) for k, v in lines.items()} == {
        root: 50,
        f"{root};train.py(7):_left": 20,
        f"{root};train.py(9):_right": 10,
        f"{root};train.py(9):_right;{method}": 20,
    }


def test_stacks_with_no_time_warn(opened, tmp_path):
    events = EventList.from_trace(opened(PYTHON), Shown())
    with pytest.warns(UserWarning, match="no event has any self_cuda_time_total, so .*stacks.txt is empty"):
        events.export_stacks(tmp_path / "stacks.txt", "self_cuda_time_total")
    assert (tmp_path / "stacks.txt").read_text() == ""


def test_unknown_stack_metric(training, tmp_path):
    with pytest.raises(ValueError, match="self_cuda_time_total"):
        training.export_stacks(tmp_path / "stacks.txt", "cpu_time")
    assert "self_cpu_time_total" in training.supported_export_stacks_metrics()


def test_grouping_by_what_was_not_recorded_warns(opened):
    events = EventList.from_trace(opened([op("aten::add", 0, 1)]), Shown())
    with pytest.warns(UserWarning, match="record_shapes=True"):
        events.key_averages(group_by_input_shapes=True)
    with pytest.warns(UserWarning, match="with_stack=True"):
        events.key_averages(group_by_stack_n=3)


def test_events_as_a_chrome_trace(training, tmp_path):
    training.export_chrome_trace(tmp_path / "events.json")
    written = json.loads((tmp_path / "events.json").read_text())
    assert [e["name"] for e in written if e["ph"] == "X"][:2] == ["ProfilerStep#0", "aten::linear"]
    assert [e["cat"] for e in written if e["ph"] == "s"] == ["cpu_to_cuda"]


def test_what_ends_on_another_thread_has_no_time_of_its_own(opened):
    events = EventList.from_trace(
        opened([op("aten::f", 0, 100), op("async", 10, 500, cat="user_annotation", Async=True), op("aten::g", 20, 30)]),
        Shown(),
    )
    later = next(e for e in events if e.name == "async")
    assert (
        later.is_async
        and later.cpu_parent is None
        and later.cpu_children == []
        and (later.cpu_time_total, later.self_cpu_time_total) == (500, 0)
    )
    assert [(e.name, e.self_cpu_time_total) for e in events if not e.is_async] == [("aten::f", 70), ("aten::g", 30)]
    row = next(line for line in events.key_averages().table().splitlines() if "async" in line)
    assert row.split() == ["async", "0.00%", "0.000us", "0", "500.000us", "500.000us", "1"]


def test_tables_are_of_one_process(opened):
    own, child = op("aten::add", 0, 10), {**op("aten::mul", 0, 10), "pid": 2}
    overhead = {**op("Activity Buffer Request", 0, 1, cat="overhead"), "pid": -1}
    profile = Shown()
    profile._trace_scope = lambda trace: {"pid": 1}
    trace = opened([own, child, overhead])
    assert {e.key for e in EventList.from_trace(trace, profile).key_averages()} == {
        "aten::add",
        "Activity Buffer Request",
    }
    assert {e.name for e in EventList.from_trace(trace, Shown())} == {
        "aten::add",
        "aten::mul",
        "Activity Buffer Request",
    }
    with pytest.raises(tg.TachographError, match="pid=x"):
        trace.ask("key_averages", pid="x")


def test_tables_of_some_threads(opened):
    trace = opened([{**op(f"aten::op{tid}", 0, 10), "tid": tid} for tid in (1, 2, 3)])
    for threads, expected in ((2, {2}), ([1, 3], {1, 3}), ("all", {1, 2, 3}), ([7], set())):
        assert {row["name"] for row in trace.ask("key_averages", thread=threads)} == {
            f"aten::op{tid}" for tid in expected
        }
        assert len(trace.ask("key_averages", thread=threads, by="event")) == len(expected)
    for wrong in ("x", "1,", "1,,2", "1 2", ",".join(map(str, range(300)))):
        with pytest.raises(tg.TachographError, match="thread="):
            trace.ask("key_averages", thread=wrong)
