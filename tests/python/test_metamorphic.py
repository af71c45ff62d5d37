"""How answers must follow when a whole trace is slowed down, or holds the same thing twice, for every question that
adds up what a rank did. Shifts, orders of events and names of streams: test_property.py and the files of the other
families."""

import copy

import traces
from hypothesis import given, settings
from test_property import CONTENT, SETTINGS, Written, answers, assert_same

FEW = settings(SETTINGS, max_examples=20)
NUMBERED = ("correlation", "External id", "Sequence number", "id")
# question, arguments, what a row is of, columns that add up, columns that stay
SUMS = [
    (
        "ops",
        {},
        ("name",),
        ("calls", "cpu_ns", "self_cpu_ns", "device_ns", "self_device_ns", "cpu_memory_bytes", "device_memory_bytes"),
        ("mean_cpu_ns", "self_cpu_pct"),
    ),
    (
        "kernels",
        {},
        ("category", "name"),
        ("calls", "total_ns"),
        ("mean_ns", "min_ns", "max_ns", "pct", "occupancy_pct"),
    ),
    ("annotations", {}, ("side", "name"), ("calls", "total_ns", "device_ns"), ("mean_ns", "min_ns", "max_ns")),
    (
        "launches",
        {},
        (),
        (
            "device_events",
            "with_host_call",
            "without_host_call",
            "op_by_external_id",
            "op_by_containment",
            "op_by_none",
            "call_ns",
        ),
        ("match_pct", "delay_mean_ns", "delay_max_ns"),
    ),
    (
        "totals",
        {},
        (),
        (
            "cpu_ns",
            "thread_cpu_ns",
            "self_cpu_ns",
            "runtime_ns",
            "nested_cpu_ns",
            "ops",
            "device_ns",
            "device_sum_ns",
            "device_events",
        ),
        (),
    ),
    ("op_classes", {}, ("class",), ("calls", "self_cpu_ns", "device_events", "device_ns"), ("fraction",)),
    ("top", {"side": "cpu"}, ("name", "kind"), ("calls", "total_ns"), ("mean_ns", "max_ns", "pct")),
    (
        "breakdown",
        {},
        (),
        ("busy_ns", "compute_ns", "non_compute_ns", "communication_ns", "memory_ns", "summed_ns"),
        (),
    ),
    ("overlap", {}, (), ("communication_ns", "computation_ns", "overlap_ns", "exposed_ns"), ("overlap_pct",)),
    ("kernel_types", {}, ("type",), ("total_ns",), ("pct",)),
    ("kernel_breakdown", {}, ("type", "name"), ("calls", "total_ns"), ("mean_ns", "min_ns", "max_ns")),
    (
        "launch_stats",
        {},
        (),
        ("launches", "call_ns", "device_ns", "delay_ns", "short_kernels", "call_outliers", "delay_outliers"),
        (),
    ),
    ("copy_bandwidth", {"by": "op"}, ("kind", "direction", "op", "line"), ("copies", "bytes", "total_ns"), ()),
    (
        "op_kernels",
        {"by": "op"},
        ("op",),
        ("calls", "kernels", "op_ns", "device_ns"),
        ("launch_delay_ns", "runtime_delay_ns"),
    ),
    ("memory", {}, ("device",), ("events", "allocations", "alloc_bytes", "free_bytes", "net_bytes"), ()),
    ("memory_ops", {}, ("device", "op"), ("calls", "net_bytes", "self_net_bytes", "allocations", "alloc_bytes"), ()),
    ("stacks", {"by": "function"}, ("name",), ("calls", "self_cpu_ns", "device_ns"), ()),
]


@FEW
@given(content=CONTENT)
def test_twice_as_slow_doubles_times_alone(engine, content):
    ranks = traces.build(**content)
    with Written(engine, ranks, 1, plain=True) as a, Written(engine, traces.slowed(ranks), 1, plain=True) as b:
        doubled = [
            (q, [{k: 2 * v if k.endswith("_ns") and v is not None else v for k, v in r.items()} for r in rows])
            for q, rows in answers(a, is_below_fixed)
        ]
        assert_same(*map(without_causes_of_silence, (doubled, answers(b, is_below_fixed))))


def without_causes_of_silence(found):
    """A host that shows nothing for a millisecond has no known cause: of gaps that may hold one the cause is not
    compared."""
    return [
        (q, [{**r, "cause": None} if q == "gaps" and r.get("dur_ns", 0) >= 1_000_000 else r for r in rows])
        for q, rows in found
    ]


def is_below_fixed(question, column):
    """Kernels shorter than 10 us are fewer where all are longer."""
    return question == "steps" and column == "short_kernels"


def twice(rank):
    """The same again, long after, with numbers of its own: what is recorded in one file instead of two."""
    later = copy.deepcopy(rank.events)
    times = [e.ts for e in later if e.ts is not None] + [e.end for e in later if e.dur is not None]
    away = (10 * (max(times) - min(times)) + 1_000_000) // 1000 * 1000
    for e in later:
        e.ts = None if e.ts is None else e.ts + away
        for place in (e.args or {}, e.more):
            for key in NUMBERED:
                if isinstance(place.get(key), int):
                    place[key] += 1_000_000
    return [*rank.events, *(e for e in later if e.ph != "M")]


@FEW
@given(content=CONTENT)
def test_the_same_thing_twice_doubles_sums_alone(engine, content):
    ranks = traces.build(**content)
    both = copy.deepcopy(ranks)
    for rank in both:
        rank.events = twice(rank)
        for i, e in enumerate(rank.events):
            e.i = i
    with Written(engine, ranks, 1, plain=True) as a, Written(engine, both, 1, plain=True) as b:
        for (_, once), (_, again) in zip(a, b):
            for question, args, key, sums, same in SUMS:
                left, right = once(question, **args), again(question, **args)
                pick = lambda rows, by: sorted(
                    (
                        [
                            *(r[k] for k in key),
                            *(None if r[c] is None else by * r[c] for c in sums),
                            *(None if r[c] is None else round(r[c], 9) for c in same),
                        ]
                        for r in rows
                    ),
                    key=repr,
                )
                assert pick(left, 2) == pick(right, 1), question
