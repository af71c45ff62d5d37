#!/usr/bin/env python3
"""What recording costs, side by side with torch.profiler in one process.

    recorder.py [--only WORD] [--rounds 41] [--ops 1000000] [--long] [--out FILE.json] [--docs docs/overhead.md]

Cost per record: thread CPU time of blocks of about 2 ms; all contenders take turns, block by block, in a shuffled
order; the figure is the median of the differences to the bare block of the same round. Whole steps, which have the
bounds: medians of at least 20 blocks of about 20 ms. --long adds the runs of 10^7 operators. One thread of torch
everywhere."""

import argparse
import contextlib
import ctypes
import functools
import gc
import json
import os
import pathlib
import platform
import random
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import tachograph as tg
import workloads
from bench import Table, markdown, rewrite
from measure import machine
from tachograph import _record
from tachograph._collect.native import NativeRecording

torch.set_num_threads(1)
median = statistics.median
ALL_FLAGS = dict(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True, with_modules=True)
NAMES = _record.OPS
SHAPES = _record.OPS | _record.SHAPES
EVERYTHING = SHAPES | _record.STACKS | _record.MODULES | _record.MEMORY


# ---- contenders: each is a context manager around a block --------------------------------------------------


@contextlib.contextmanager
def bare():
    yield


def ours(features, folder, required=None):
    """required: what must be had of the features, all of them unless said."""

    @contextlib.contextmanager
    def around():
        _record.open(
            os.path.join(folder, "bench.tacho"), features=features, required=features if required is None else required
        )
        _record.resume()
        try:
            yield
        finally:
            _record.close()

    return around


def theirs(**flags):
    @contextlib.contextmanager
    def around():
        prof = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **flags)
        prof.start()
        try:
            yield
        finally:
            prof.stop()

    return around


class Floor:
    """Torch's own price for a pair of callbacks that does nothing (floor.c). Empty where it cannot be built."""

    def __init__(self, folder):
        library = os.path.join(folder, "floor.so")
        built = (
            platform.machine() == "x86_64"
            and shutil.which("cc")
            and subprocess.run(
                [
                    "cc",
                    "-O2",
                    "-shared",
                    "-fPIC",
                    *(
                        "-I%s" % path
                        for path in (
                            HERE.parents[1] / "src",
                            HERE.parents[1] / "include",
                            sysconfig.get_paths()["include"],
                        )
                    ),
                    "-o",
                    library,
                    HERE / "floor.c",
                    "-ldl",
                ]
            )
        )
        self.calls = ctypes.PyDLL(library) if built and built.returncode == 0 else None

    def contenders(self, *which):
        """{name: context manager} for "floor", "floor clock", "floor boxed" and "floor calls"."""
        if not self.calls:
            return {}
        return {name: self.around("clock" in name, "boxed" in name, "calls" in name) for name in which}

    def around(self, clock, boxed, calls):
        @contextlib.contextmanager
        def on():
            assert self.calls.floor_on(clock, boxed) == 0
            self.calls.floor_profile(calls)
            try:
                yield
            finally:
                self.calls.floor_profile(False)
                self.calls.floor_off()

        return on

    def add(self, table, label, extra, count):
        texts = {
            "floor": "torch's own callbacks, empty",
            "floor clock": "the same, reading the clock twice",
            "floor boxed": "torch's own callbacks, empty, arguments boxed",
        }
        for name, text in texts.items():
            if name in extra:
                per_record(table, "%s: %s" % (label, text), extra, count, name)


def warm_block(run, clock):
    run()  # warms what opening or closing made cold
    begin = clock()
    run()
    return clock() - begin


def compare(run, contenders, rounds, clock=time.thread_time_ns):
    """Of each contender: median extra ns over the bare block just before it and its quartiles, the median ns of its
    blocks, and the median of how many times as long they are as that bare block. The pace of a virtual machine changes
    from second to second, so what is compared lies next to each other."""
    times = {name: [] for name in contenders}
    before = {name: [] for name in contenders}
    names = list(contenders)
    for around in contenders.values():
        with around():
            run()
    for _ in range(rounds):
        random.shuffle(names)
        for name in names:
            before[name].append(warm_block(run, clock))
            with contenders[name]():
                times[name].append(warm_block(run, clock))
    extra = {}
    for name in names:
        differences = sorted(t - b for t, b in zip(times[name], before[name]))
        quarter = len(differences) // 4
        extra[name] = (
            median(differences),
            differences[quarter],
            differences[-quarter - 1],
            median(times[name]),
            median([t / b for t, b in zip(times[name], before[name])]),
        )
    return extra


def records_of(run, features, folder):
    """Records one run makes: an operator may call others."""
    _record.open(os.path.join(folder, "count.tacho"), features=features)
    _record.resume()
    run()
    return _record.close()["records"]


def per_record(table, what, extra, count, name, **bounds):
    mid, low, high, _ = extra[name]
    table.add(what, mid / count, "ns/record", note="quartiles %.0f to %.0f" % (low / count, high / count), **bounds)
    return mid / count


# ---- figures -----------------------------------------------------------------------------------------------


def records(table, args, folder):
    floor = Floor(folder)
    for label, make in (("torch.add", workloads.add_loop), ("4-op mix", workloads.mix_loop)):
        run = make(2000)
        count = records_of(run, NAMES, folder)
        extra = compare(
            run,
            {
                "bare": bare,
                "names": ours(NAMES, folder),
                "shapes": ours(SHAPES, folder),
                "torch": theirs(),
                "torch shapes": theirs(record_shapes=True),
                **floor.contenders("floor", "floor clock", "floor boxed"),
            },
            args.rounds,
        )
        floor.add(table, label, extra, count)
        ours_names = per_record(table, label + ": names, times, sequence", extra, count, "names")
        base = per_record(table, label + ": torch.profiler()", extra, count, "torch")
        table.add(label + ": ours / torch.profiler()", ours_names / base, "x", must=0.4)
        ours_shapes = per_record(table, label + ": with shapes, types, strides, scalars", extra, count, "shapes")
        base = per_record(table, label + ": torch.profiler(record_shapes=True)", extra, count, "torch shapes")
        table.add(label + ": ours / torch.profiler(record_shapes=True)", ours_shapes / base, "x", must=0.45)


def everything(table, args, folder):
    for label, make in (("torch.add", workloads.add_loop), ("4-op mix", workloads.mix_loop)):
        loop = make(2000)

        def run():
            workloads.at_depth(20, loop)

        count = records_of(run, NAMES, folder)
        extra = compare(
            run, {"bare": bare, "all": ours(EVERYTHING, folder), "torch all": theirs(**ALL_FLAGS)}, args.rounds
        )
        mine = per_record(table, label + ", depth 20: everything on", extra, count, "all")
        base = per_record(table, label + ", depth 20: torch.profiler with all flags", extra, count, "torch all")
        table.add(label + ", depth 20: everything on, ours / torch.profiler", mine / base, "x", must=0.3)


def presets(table, args, folder):
    """What `tachograph run --preset` costs an operator, twenty calls deep. deep records calls of Python functions
    too."""
    loop = workloads.mix_loop(2000)

    def run():
        workloads.at_depth(20, loop)

    count = records_of(run, NAMES, folder)

    names = {"lean": _record.LEAN, "default": _record.DEFAULT, "deep": _record.DEEP}
    extra = compare(
        run,
        {"bare": bare, **{name: ours(features, folder, _record.OPS) for name, features in names.items()}},
        args.rounds,
    )
    for name in names:
        per_record(table, "preset %s (4-op mix, depth 20)" % name, extra, count, name)


class Loop(torch.nn.Module):
    def forward(self, x, n):
        for _ in range(n):
            torch.add(x, x)
        return x


class Around(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, n):
        return self.inner(x, n)


def modules(table, args, folder):
    """Beside stacks: many operators of one module, three modules deep; and modules of one operator each."""
    deep, flat = Around(Around(Loop())), torch.nn.Sequential(*[torch.nn.ReLU() for _ in range(8)])
    x = torch.ones(4)

    def inside():
        deep(x, 2000)

    def each():
        with torch.no_grad():
            for _ in range(100):
                flat(x)

    for what, run, must in (("within a module", inside, 5), ("a module for every operator", each, None)):
        count = records_of(run, NAMES, folder)
        extra = compare(
            run,
            {
                "bare": bare,
                "stacks": ours(NAMES | _record.STACKS, folder),
                "both": ours(NAMES | _record.STACKS | _record.MODULES, folder),
            },
            args.rounds,
        )
        table.add(
            "module path, per operator, " + what,
            (extra["both"][0] - extra["stacks"][0]) / count,
            "ns/record",
            must=must,
        )


class Sine(torch.nn.Module):
    def forward(self, x):
        torch.sin(x)
        return x


class Pointers:
    """The pointer that calls of nn.Module's function go through, while a recording with spans runs: as it was, empty,
    with the clock, and ours."""

    def __init__(self, library, features, folder):
        self.function, self.set = ctypes.py_object(torch.nn.Module._wrapped_call_impl), library.floor_pointer_set
        self.set.argtypes = ctypes.py_object, ctypes.c_void_p
        library.floor_pointer.restype = library.floor_pointer_around.restype = ctypes.c_void_p
        self.all = {
            "bare": library.floor_pointer(self.function),
            "empty": library.floor_pointer_around(self.function, 0),
            "clock": library.floor_pointer_around(self.function, 1),
        }
        _record.open(os.path.join(folder, "spans.tacho"), features=features, disk_bytes=4 << 30)
        _record.resume()
        self.all["ours"] = library.floor_pointer(self.function)

    def contenders(self):
        @contextlib.contextmanager
        def at(pointer):
            self.set(self.function, pointer)
            yield

        return {name: functools.partial(at, pointer) for name, pointer in self.all.items()}

    def close(self):
        self.set(self.function, self.all["ours"])
        _record.close()


def module_spans(table, args, folder):
    """Within one recording of operators, stacks and modules: short blocks, as one call of a module costs a hundred
    times its span."""
    floor, x = Floor(folder), torch.ones(4)
    if not floor.calls:
        return
    pointers = Pointers(floor.calls, NAMES | _record.STACKS | _record.MODULES | _record.MODULE_SPANS, folder)
    try:
        for what, part, must in (("an operator in each", Sine, 30), ("no operator", torch.nn.Identity, None)):
            model = torch.nn.Sequential(*[part() for _ in range(8)])

            def run():
                for _ in range(12):
                    model(x)

            extra = compare(run, pointers.contenders(), args.rounds * 25)
            for name, text in (
                ("empty", "a function around nn.Module's that does nothing"),
                ("clock", "the same, reading the clock twice"),
            ):
                table.add("module call, %s: %s" % (what, text), extra[name][0] / (12 * 9), "ns")
            per_record(table, "module span, " + what, extra, 12 * 9, "ours", must=must)
    finally:
        pointers.close()


def memory(table, args, folder):
    def run():
        for _ in range(1000):
            torch.empty(64)

    extra = compare(
        run,
        {
            "bare": bare,
            "names": ours(NAMES, folder),
            "memory": ours(NAMES | _record.MEMORY, folder),
            "torch": theirs(),
            "torch memory": theirs(profile_memory=True),
        },
        args.rounds,
    )
    table.add("allocation and free, a pair", (extra["memory"][0] - extra["names"][0]) / 1000, "ns", must=20)
    table.add("the same in torch.profiler", (extra["torch memory"][0] - extra["torch"][0]) / 1000, "ns")


def annotations(table, args, folder):
    ours_type, theirs_type = tg.record_function, torch.profiler.record_function

    def block(make, n):
        def run():
            for _ in range(n):
                with make("name"):
                    pass

        return run

    def empty(n):
        def run():
            for _ in range(n):
                pass

        return run

    def cost(run, n):
        values = []
        for _ in range(args.rounds):
            begin = time.thread_time_ns()
            run()
            middle = time.thread_time_ns()
            empty(n)()
            values.append((middle - begin - (time.thread_time_ns() - middle)) / n)
        return median(values)

    table.add("record_function, not recording", cost(block(ours_type, 20000), 20000), "ns", must=80, aim=61)
    table.add("torch.profiler.record_function, not recording", cost(block(theirs_type, 500), 500), "ns")
    with ours(NAMES, folder)():
        table.add("record_function, recording", cost(block(ours_type, 20000), 20000), "ns")


def calls(table, args, folder):
    def leaf():
        return None

    def run():
        for _ in range(20000):
            leaf()

    extra = compare(
        run, {"bare": bare, "calls": ours(_record.CALLS, folder), "torch": theirs(with_stack=True)}, args.rounds
    )
    mine = extra["calls"][0] / 20000
    table.add(
        "call timeline, per call of a Python function", mine, "ns", must=45 if sys.version_info >= (3, 12) else None
    )
    table.add("the same in torch.profiler(with_stack=True)", extra["torch"][0] / 20000, "ns")
    table.add("call timeline: ours / torch", mine / (extra["torch"][0] / 20000), "x", must=0.75)


def step_blocks(make, contenders, rounds):
    """CPU time of the thread that trains, which with one thread of torch and work on the CPU is the program's all:
    medians of blocks of whole steps, all contenders in a random order in each round; {name: how many times as long as
    bare} and the bare step's ns. Blocks are of 20 ms and six steps at least: where one holds two, what a recording
    costs where it begins is half of the figure."""
    torch.manual_seed(0)
    step = make()
    for _ in range(5):
        step()
    begin = time.thread_time_ns()
    step()
    times = max(6, int(20e6 / (time.thread_time_ns() - begin)))

    def run():
        for _ in range(times):
            step()

    extra = compare(run, contenders, rounds)
    return {name: figures[4] for name, figures in extra.items()}, extra["bare"][3] / times


# What `profile` records with no flag, with only with_stack, and with every flag of torch's.
STACKS = NAMES | _record.STACKS | _record.CALLS | _record.MODULES | _record.MODULE_SPANS
ALL = STACKS | EVERYTHING
STEP_TEXTS = {
    "floor": "torch's own callbacks, empty",
    "floor clock": "the same, reading the clock twice",
    "floor calls": "callbacks and a profile function, empty",
    "names": "ours, names and times",
    "torch": "torch.profiler()",
    "shapes": "ours, shapes too",
    "torch shapes": "torch.profiler(record_shapes=True)",
    "stacks": "ours, with_stack=True",
    "torch stacks": "torch.profiler(with_stack=True)",
    "all": "ours, everything on",
    "torch all": "torch.profiler with all flags",
}
# contender, what it is held against, most times its extra cost, aim
STEP_BOUNDS = (
    ("names", "floor", 1.5, None),
    ("names", "torch", 0.5, 0.4),
    ("shapes", "torch shapes", None, None),
    ("stacks", "torch stacks", 1.0, None),
    ("stacks", "floor calls", None, 1.35),
    ("all", "torch all", 0.5, 0.35),
)


def whole_steps(table, args, folder):
    """The bounds that count: what recording adds to whole steps, as the geometric mean of two programs."""
    floor = Floor(folder)
    contenders = {
        "bare": bare,
        "names": ours(NAMES, folder),
        "shapes": ours(SHAPES, folder),
        "stacks": ours(STACKS, folder, NAMES),
        "all": ours(ALL, folder, NAMES),
        "torch": theirs(),
        "torch shapes": theirs(record_shapes=True),
        "torch stacks": theirs(with_stack=True),
        "torch all": theirs(**ALL_FLAGS),
        **floor.contenders("floor", "floor clock", "floor calls"),
    }
    ratios = {}
    for label in ("MLP", "transformer"):
        slower, bare_ns = step_blocks(workloads.STEPS[label], contenders, max(21, args.rounds))
        for name, text in STEP_TEXTS.items():
            if name in slower:
                table.add("%s step: %s" % (label, text), 100 * (slower[name] - 1), "%% of %.3g ms" % (bare_ns / 1e6))
        for mine, other, _must, _aim in STEP_BOUNDS:
            if other in slower:
                ratios.setdefault((mine, other), []).append((slower[mine] - 1) / (slower[other] - 1))
    for mine, other, must, aim in STEP_BOUNDS:
        both = ratios.get((mine, other))
        if not both:
            continue
        mean = statistics.geometric_mean(both) if min(both) > 0 else float("nan")
        note = "MLP %.2f, transformer %.2f" % tuple(both)
        table.add(
            "extra cost of a step: %s / %s" % (STEP_TEXTS[mine], STEP_TEXTS[other]),
            mean,
            "x",
            must=must,
            aim=aim,
            note=note,
        )


def recorded(folder):
    """As `tachograph.profile` and `tachograph run` record it: regions of compiled code are seen, too."""

    @contextlib.contextmanager
    def around():
        with NativeRecording(os.path.join(folder, "bench.tacho"), _record.LEAN):
            yield

    return around


def compiled_steps(table, args, folder):
    """Steps of the same two programs, compiled: few operators, and ranges of torch.compile around them."""
    if not shutil.which("c++"):
        print("not measured: compiled steps: Inductor needs a compiler")
        return
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(folder, "inductor"))
    contenders = {"bare": bare, "names": recorded(folder), "torch": theirs()}
    ratios = {}
    for label, make in workloads.COMPILED.items():
        slower, bare_ns = step_blocks(make, contenders, max(21, args.rounds))
        for name in ("names", "torch"):
            what = "compiled %s step: %s" % (label, STEP_TEXTS[name])
            table.add(what, 100 * (slower[name] - 1), "%% of %.3g ms" % (bare_ns / 1e6))
        ratios[label] = (slower["names"] - 1) / (slower["torch"] - 1)
    mean = statistics.geometric_mean(ratios.values()) if min(ratios.values()) > 0 else float("nan")
    note = ", ".join("%s %.2f" % one for one in ratios.items())
    what = "extra cost of a compiled step: %s / %s" % (STEP_TEXTS["names"], STEP_TEXTS["torch"])
    table.add(what, mean, "x", must=0.55, note=note)


def resident():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("RssAnon"))


def stops(table, args, folder):
    path = os.path.join(folder, "stop.tacho")
    a, b = torch.ones(2), torch.ones(2)
    for exponent in (5, 6, 7) if args.long else (5, 6):
        count = 10**exponent
        before, most = resident(), 0
        _record.open(path, features=EVERYTHING, disk_bytes=4 << 30)
        _record.resume()
        for _ in range(10):
            for _ in range(count // 10):
                torch.add(a, b)
            most = max(most, resident() - before)
        peak = _record.state()["peak_memory_bytes"]
        begin = time.perf_counter()
        made = _record.close()
        table.add(
            "stop after 10^%d operators" % exponent,
            (time.perf_counter() - begin) * 1e3,
            "ms",
            must=200,
            aim=50,
            note="%d records, %d lost" % (made["records"], made["lost"]),
        )
        table.add(
            "memory while recording 10^%d operators" % exponent,
            peak / 2**20,
            "MiB",
            must=64,
            note="anonymous growth %.1f MiB" % (most / 2**20),
        )
        table.add(
            "disk, raw, after 10^%d operators" % exponent,
            round(os.path.getsize(path) / made["records"], 1),
            "B/record",
            must=32,
            note="three records an operator: it, its allocation, its free",
        )
        if exponent == 6:
            packed = os.path.join(folder, "packed.tacho")
            tg.open(path).save(packed)
            table.add("disk, packed", os.path.getsize(packed) / made["records"], "B/record", must=8, aim=4)


def many_threads(table, args, folder):
    _record.open(os.path.join(folder, "threads.tacho"), features=EVERYTHING)
    _record.resume()
    a, b = torch.ones(2), torch.ones(2)
    gate = threading.Barrier(200)

    def work():
        gate.wait()
        for _ in range(500):
            torch.add(a, b)
        gate.wait()

    threads = [threading.Thread(target=work) for _ in range(200)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    made = _record.close()
    table.add(
        "memory with 200 threads",
        made["peak_memory_bytes"] / 2**20,
        "MiB",
        must=64,
        note="%d records, %d lost" % (made["records"], made["lost"]),
    )


WHOLE_RUN = """
import sys, time, json, torch
torch.set_num_threads(1)
n, kind, export, path = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "1", sys.argv[4]
a, b = torch.ones(2), torch.ones(2)
def run(k):
    for _ in range(k):
        torch.add(a, b)
run(1000)
flags = dict(record_shapes=True, profile_memory=True, with_stack=True, with_modules=True)
begin = time.perf_counter()
if kind == "bare":
    run(n)
else:
    import tachograph
    module = torch.profiler if kind == "torch" else tachograph
    if kind == "ours":
        with module.profile(activities=[module.ProfilerActivity.CPU], **flags): run(10)
    begin = time.perf_counter()
    with module.profile(activities=[module.ProfilerActivity.CPU], **flags) as prof:
        run(n)
    if export:
        prof.export_chrome_trace(path)
print(json.dumps(time.perf_counter() - begin))
"""


def whole_run(table, args, folder):
    def seconds(kind, export):
        done = subprocess.run(
            [
                sys.executable,
                "-W",
                "ignore",
                "-c",
                WHOLE_RUN,
                str(args.ops),
                kind,
                str(int(export)),
                os.path.join(folder, "out.json"),
            ],
            check=True,
            capture_output=True,
            text=True,
        )
        return float(done.stdout.strip().splitlines()[-1])

    base = median(seconds("bare", False) for _ in range(3))
    for export, must, aim, label in ((True, 8, 20, "record, stop and JSON"), (False, 20, 50, "record and stop")):
        mine = median(seconds("ours", export) for _ in range(3)) - base
        other = seconds("torch", export) - base
        table.add("%d operators, everything on, %s: extra" % (args.ops, label), mine, "s")
        table.add("the same, torch.profiler", other, "s")
        table.add("torch / ours: %s" % label, other / mine, "x", must=must, aim=aim, lower=False)


def tables(table, args, folder):
    a, b = torch.ones(2), torch.ones(2)

    def run(n):
        for _ in range(n):
            torch.add(a, b)

    with tg.profile(activities=[tg.ProfilerActivity.CPU]) as prof:
        run(args.ops)
    begin = time.perf_counter()
    prof.key_averages().table(sort_by="cpu_time_total")
    mine = time.perf_counter() - begin
    few = 50000
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        run(few)
    begin = time.perf_counter()
    prof.key_averages().table(sort_by="cpu_time_total")
    other = (time.perf_counter() - begin) * args.ops / few
    table.add("key_averages().table(), %d operators" % args.ops, mine, "s")
    table.add("the same, torch.profiler", other, "s", note="%d operators measured, in proportion" % few)
    table.add("torch / ours: key_averages().table()", other / mine, "x", must=50, aim=200, lower=False)


def afterwards(table, args, folder):
    """Steps after a recording was stopped, against steps before; the same without a recording between them, in turn."""
    torch.manual_seed(0)
    step = workloads.mlp()

    def block():
        begin = time.thread_time_ns()
        for _ in range(20):
            step()
        return time.thread_time_ns() - begin

    differences, around = [], ours(EVERYTHING, folder)
    for _ in range(args.rounds * 5):
        ratios = []
        for between in random.sample((around, bare), 2):
            before = block()
            with between():
                step()
            for _ in range(100):  # what closing put out of the caches comes back within some ms
                step()
            ratios.append((between is around, block() / before))
        differences.append(dict(ratios)[True] - dict(ratios)[False])
    differences.sort()
    n = len(differences)
    low, high = differences[int(n / 2 - 0.98 * n**0.5)], differences[min(n - 1, int(n / 2 + 0.98 * n**0.5) + 1)]
    table.add(
        "step after stop against never started: median difference",
        median(differences) * 100,
        "%",
        note="95 %% interval %.2f to %.2f %%" % (low * 100, high * 100),
    )
    table.add("the interval's wider end", max(abs(low), abs(high)) * 100, "%", must=1)


def cuda_unused(table, args, folder):
    """Last: the stand-ins for NVIDIA's libraries stay loaded. The source records, and the program uses no device."""
    fakes = args.build / "fake"
    if not fakes.is_dir():
        return print("not measured: CUDA that is not used: no stand-ins in %s" % fakes)
    for name in ("libcupti.so.12", "libcuda.so.1"):
        ctypes.CDLL(str(fakes / name))
    run = workloads.mix_loop(2000)
    count = records_of(run, SHAPES, folder)
    contenders = {
        "bare": bare,
        "without": ours(SHAPES, folder),
        "with": ours(SHAPES | _record.CUDA | _record.CUDA_WAITS, folder),
        "torch": theirs(record_shapes=True),
    }
    extra = compare(run, contenders, max(args.rounds, 101))  # on a busy machine the ratio varies by a tenth even so
    without, with_it = (extra[name][0] / count for name in ("without", "with"))
    note = "%.0f and %.0f ns/record; to torch.profiler %.3f and %.3f x" % (
        with_it,
        without,
        extra["with"][0] / extra["torch"][0],
        extra["without"][0] / extra["torch"][0],
    )
    table.add("4-op mix: with CUDA that is not used / without", with_it / without, "x", must=1.05, note=note)
    return None


FIGURES = (
    records,
    everything,
    presets,
    modules,
    module_spans,
    memory,
    annotations,
    calls,
    whole_steps,
    compiled_steps,
    stops,
    many_threads,
    tables,
    whole_run,
    afterwards,
    cuda_unused,
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="figures whose name contains this word")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--ops", type=int, default=1000000)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build", help="where fake/ is")
    parser.add_argument("--out")
    parser.add_argument("--docs")
    args = parser.parse_args()
    about = machine()
    table, folder = Table(), tempfile.mkdtemp(prefix="tachograph-bench-")
    try:
        for figure in FIGURES:
            if args.only in figure.__name__:
                gc.collect()
                figure(table, args, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(
        "%d of %d bounds reached"
        % (sum(r["must_reached"] is True for r in table.rows), sum(r["must_reached"] is not None for r in table.rows))
    )
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps(table.rows, indent=1))
    if args.docs:
        rewrite(pathlib.Path(args.docs), markdown(about, table.rows))


if __name__ == "__main__":
    main()
