"""tg.diff: figures by hand, intervals against a plain bootstrap, what is called a change and what is not, and what may
be compared."""

import json
import random
import statistics

import pytest
import reference_diff

tg = pytest.importorskip("tachograph")

CONV = "void cutlass::conv<128, 64>(float*)"


class Program:
    """A made-up training loop. Every step: a batch, a convolution that launches a kernel, a linear layer, the
    optimizer. Times in µs."""

    def __init__(
        self,
        steps=20,
        seed=0,
        noise=0.03,
        batch=32,
        wait=20,
        conv=40,
        linear=25,
        kernel=60,
        name=CONV,
        extra=None,
        slow=None,
        devices=None,
    ):
        self.rnd = random.Random(seed)
        self.noise, self.drift = noise, 0.0
        self.document = {"schemaVersion": 1, **({"deviceProperties": devices} if devices else {})}
        self.events, self.steps, self.id = [], [], 0
        self.given = dict(batch=batch, wait=wait, conv=conv, linear=linear, kernel=kernel, name=name, extra=extra)
        at = 1000.0
        for step in range(steps):
            at = self.step(step, at, slow or {})

    def length(self, us):
        """Noise as machines make it: some of it lasts, and now and then there is a hiccup."""
        self.drift = 0.7 * self.drift + self.rnd.gauss(0, self.noise / 2)
        factor = (
            1
            + self.drift
            + self.rnd.gauss(0, self.noise)
            + (self.noise * 10 if self.noise and self.rnd.random() < 0.01 else 0)
        )
        return round(us * max(factor, 0.2), 3)

    def slice(self, cat, name, at, dur, tid=1, pid=1, **args):
        self.events.append(
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": pid,
                "tid": tid,
                "ts": round(at, 3),
                "dur": round(dur, 3),
                "args": args,
            }
        )

    def step(self, number, start, slow):
        g, at = self.given, start
        wait, conv, linear = (self.length(g[k]) * slow.get(k, 1) for k in ("wait", "conv", "linear"))
        self.slice("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, wait)
        at += wait + 1
        self.id += 1
        shape = [[g["batch"], 3, 32, 32], [16, 3, 3, 3], [16]]
        self.slice("cpu_op", "aten::conv2d", at, conv, **{"Input Dims": shape, "External id": self.id})
        self.slice("cuda_runtime", "cudaLaunchKernel", at + 2, 5, correlation=self.id, **{"External id": self.id})
        self.slice(
            "kernel",
            g["name"],
            at + 10,
            self.length(g["kernel"]),
            tid=7,
            pid=0,
            device=0,
            stream=7,
            correlation=self.id,
        )
        at += conv + 1
        self.slice("cpu_op", "aten::linear", at, linear, **{"Input Dims": [[g["batch"], 16], [10, 16], [10]]})
        at += linear + 1
        if g["extra"]:
            self.slice("cpu_op", g["extra"], at, 10)
            at += 11
        self.slice("user_annotation", f"ProfilerStep#{number}", start, at - start)
        self.steps.append(at - start)
        return at + 50

    def write(self, folder, name):
        path = folder / name
        path.write_text(json.dumps({**self.document, "traceEvents": self.events}))
        return path


def rows(diff):
    return {(r["by"], r["name"], r["quantity"]): r for r in diff.table}


@pytest.fixture
def pair(tmp_path):
    def make(a, b, **arguments):
        return tg.diff(Program(**a).write(tmp_path, "a.json"), Program(**b).write(tmp_path, "b.json"), **arguments)

    return make


def test_figures_by_hand(pair):
    """Without noise a step takes 20 + 1 + 40 + 1 + 25 + 1 = 88 µs of host; 8 less with a quicker convolution, 11 more
    with an extra operator."""
    diff = pair(dict(noise=0, steps=5), dict(noise=0, steps=4, conv=32, extra="aten::relu"))
    found = rows(diff)
    assert found["step", "step", "host"]["a"] == 88000 and found["step", "step", "host"]["b"] == 91000
    conv = found["op", "aten::conv2d", "self_cpu"]
    assert (conv["a"], conv["b"], conv["delta"], conv["low"], conv["high"]) == (
        35000,
        27000,
        -8000,
        -8000,
        -8000,
    )  # the call's 5 µs are not its own
    assert conv["delta_pct"] == pytest.approx(-100 * 8 / 35) and conv["verdict"] == "faster"
    assert found["op", "aten::conv2d", "calls"]["verdict"] == "no difference"
    relu = found["op", "aten::relu", "calls"]
    assert (relu["a"], relu["b"], relu["verdict"], relu["delta_pct"]) == (0, 1, "added", None)
    assert found["op", "aten::linear", "cpu"]["verdict"] == "no difference"
    assert found["category", "dataloader", "time"]["delta"] == 0
    assert found["kernel", CONV, "device"]["a"] == 60000 and found["step", "step", "kernels"]["b"] == 1


def test_intervals_are_those_of_a_plain_bootstrap(pair, tmp_path):
    sides = [Program(seed=1, steps=17), Program(seed=2, steps=23, linear=28)]
    found = rows(tg.diff(*(p.write(tmp_path, f"{i}.json") for i, p in enumerate(sides))))
    values = [[round(s * 1000) for s in p.steps] for p in sides]
    host = found["step", "step", "host"]
    for key, want in zip(("delta", "low", "high"), reference_diff.interval(*values, reference_diff.mean)):
        assert host[key] == pytest.approx(want, rel=2e-5, abs=2)
    linear = [[round(e["dur"] * 1000) for e in p.events if e["name"] == "aten::linear"] for p in sides]
    row = found["op", "aten::linear", "self_cpu"]
    for key, want in zip(("delta", "low", "high"), reference_diff.interval(*linear, reference_diff.mean)):
        assert row[key] == pytest.approx(want, rel=2e-5, abs=2)
    medians = [[int(s["total_ns"]) for s in tg.open(tmp_path / f"{i}.json").ask("steps")] for i in range(2)]
    p50 = found["step", "step", "p50"]
    for key, want in zip(
        ("delta", "low", "high"), reference_diff.interval(*medians, lambda v: reference_diff.quantile(v, 0.5))
    ):
        assert p50[key] == pytest.approx(want, rel=1e-9, abs=1)


def test_the_same_program_twice_shows_no_difference(pair):
    """30 pairs with noise of 3 %, some of it lasting: no step is called faster or slower, and of some 20 rows a pair
    next to none."""
    steps, others, seen = 0, 0, 0
    for seed in range(30):
        for row in pair(dict(seed=2 * seed, steps=25), dict(seed=2 * seed + 1, steps=25)).table:
            changed = row["verdict"] != "no difference"
            steps += changed and row["by"] == "step" and row["quantity"] == "p50"
            others += changed and row["by"] != "step"
            seen += row["by"] != "step"
    assert steps <= 1 and others <= seen * 0.02, (steps, others, seen)


@pytest.mark.parametrize("factor, verdict", [(1.25, "slower"), (0.75, "faster")])
def test_a_planted_change_is_found(pair, factor, verdict):
    """The convolution takes a quarter more: 10 µs of a step of 88, the only thing that changed on the host."""
    diff = pair(dict(seed=1, steps=30, kernel=5), dict(seed=2, steps=30, kernel=5, slow={"conv": factor}))
    assert diff.headline.startswith("B is ") and verdict in diff.headline
    changed = {
        (r["by"], r["name"]) for r in diff.table if r["quantity"] == "self_cpu" and r["verdict"] != "no difference"
    }
    assert changed == {("op", "aten::conv2d")}


def test_a_tenth_more_is_found(pair):
    diff = pair(
        dict(seed=5, steps=30), dict(seed=6, steps=30, slow={"wait": 1.1, "conv": 1.1, "linear": 1.1}, kernel=66)
    )
    assert "slower" in diff.headline
    low, high = (rows(diff)["step", "step", "mean"][k] for k in ("low", "high"))
    assert 0 < low < high


def test_one_step_has_no_interval_and_says_so(pair):
    diff = pair(dict(steps=1), dict(steps=1, conv=80))
    assert diff.headline.startswith("Too few steps for a verdict")
    assert any("no intervals" in note for note in diff.notes)
    assert all(r["low"] is None and r["verdict"] in ("too few steps", "no difference") for r in diff.table)


def test_kernels_of_one_family_are_one_row(pair):
    diff = pair(dict(noise=0), dict(noise=0, name="void cutlass::conv<256, 128>(float*, int)", kernel=50))
    found = rows(diff)
    assert {found["kernel", n, "device"]["verdict"] for n in (CONV, "void cutlass::conv<256, 128>(float*, int)")} == {
        "removed",
        "added",
    }
    family = found["family", "cutlass::conv", "device"]
    assert (family["a"], family["b"], family["verdict"]) == (60000, 50000, "faster")


def test_another_batch_size_withholds_the_verdict(pair):
    diff = pair(dict(batch=32), dict(batch=64, conv=80, linear=50, kernel=120))
    assert diff.headline.startswith("No verdict: batch_size differs, 32 in A and 64 in B")
    assert {r["verdict"] for r in diff.table if r["unit"] == "ns"} == {"withheld"}
    with pytest.raises(tg.TachographError, match="not judged") as raised:
        diff.failed("step.p50 > +5%")
    assert raised.value.code == "NO_DATA"
    accepted = pair(dict(batch=32), dict(batch=64, conv=80, linear=50, kernel=120), accept="batch_size")
    assert "slower" in accepted.headline and accepted.failed("step.p50 > +5%")


def test_another_device_withholds_the_verdict(pair):
    devices = [[{"id": 0, "name": name}] for name in ("NVIDIA H100", "NVIDIA A100")]
    diff = pair(dict(devices=devices[0]), dict(devices=devices[1]))
    assert "devices differ, NVIDIA H100 in A and NVIDIA A100 in B" in diff.headline
    conditions = {r["condition"]: r for r in pair(dict(devices=devices[0]), dict(devices=devices[1]), by="conditions")}
    assert conditions["devices"]["same"] is False and conditions["input_shapes"]["same"] is True


def test_assertions(pair):
    diff = pair(
        dict(seed=1, steps=30, noise=0.01), dict(seed=2, steps=30, noise=0.01, slow={"conv": 1.5}, kernel=90), by="step"
    )
    assert len(diff.table) == 5  # yet all rows can be judged
    assert diff.failed("step.p50 > +5%", "step.p50 < -5%") == list(diff.failed("step.p50 > +5%")) != []
    assert diff.failed('op["aten::conv2d"].self_cpu > +10us') and not diff.failed('op["aten::conv2d"].self_cpu > +1ms')
    assert not diff.failed('op["aten::linear"].self_cpu > +0%')  # noise
    assert (
        diff.failed("op.self_cpu > 10%")
        and diff.failed("kernels >= 1")
        and not diff.failed("kernels > 1")
        and not diff.failed("kernels > +0")
    )
    assert diff.failed("family > +20%") and diff.failed("step.host > 90us") and not diff.failed("step.mean > 10ms")
    assert diff.failed("step.p50 > -5%")  # "at least 5 % faster" was wanted


@pytest.mark.parametrize(
    "test, said",
    [
        ("stp.p50 > 1%", "did you mean step"),
        ("step.p5 > 1%", "did you mean p50"),
        ('op["aten::conv2"] > 1%', "did you mean aten::conv2d"),
        ("step.p50 > 3", "ns, us, ms or s"),
        ("kernels > 3ms", "no unit"),
        ("step.p50 = 3ms", "expected >"),
        ("step.p50 > x", "a number"),
        ("step.p50 > 3 parsecs", "a unit"),
        ('op["x > 1%', "the closing quote"),
        ("", "what to judge"),
        ("step.p50 > 5% and more", "the end"),
        ("step.p50 > .", "a number"),
        ("step. > 5%", "a quantity"),
    ],
)
def test_assertions_that_make_no_sense(pair, test, said):
    with pytest.raises(tg.TachographError, match=said) as raised:
        pair({}, {}).failed(test)
    assert raised.value.code == "USAGE"


def test_what_was_not_recorded_cannot_be_asserted(pair):
    for test in ("memory.peak > +10%", "module > +1%"):
        with pytest.raises(tg.TachographError, match="record") as raised:
            pair({}, {}).failed(test)
        assert raised.value.code == "NO_DATA"


def test_one_question_column_by_column(pair):
    table = pair(
        dict(noise=0, steps=5),
        dict(noise=0, steps=4, conv=32, extra="aten::relu"),
        question="ops",
        columns="cpu_ns,calls",
    )
    assert [c for c in table.columns if c.startswith(("cpu_ns", "calls"))] == [
        "calls_a",
        "calls_b",
        "calls_delta",
        "cpu_ns_a",
        "cpu_ns_b",
        "cpu_ns_delta",
    ]
    found = {r["name"]: r for r in table}
    assert (
        found["aten::conv2d"]["cpu_ns_a"],
        found["aten::conv2d"]["cpu_ns_b"],
        found["aten::conv2d"]["cpu_ns_delta"],
    ) == (200000, 128000, -72000)
    assert (
        found["aten::relu"]["in"],
        found["aten::relu"]["calls_a"],
        found["aten::relu"]["calls_b"],
        found["aten::relu"]["calls_delta"],
    ) == ("b", None, 4, None)
    assert table.to_dicts()[0]["name"] == "aten::conv2d"  # the largest change first


def test_totals_by_name(pair):
    by_name = {
        r["name"]: r
        for r in pair(dict(noise=0, steps=5), dict(noise=0, steps=4, extra="aten::relu"), by="name", step="0:3")
    }
    assert (
        by_name["aten::conv2d"]["calls_a"],
        by_name["aten::conv2d"]["total_b_ns"],
        by_name["aten::conv2d"]["change"],
    ) == (4, 160000, "unchanged")
    assert (
        by_name["aten::relu"]["calls_b"],
        by_name["aten::relu"]["total_delta_ns"],
        by_name["aten::relu"]["change"],
    ) == (4, 40000, "added")
    short = {r["name"] for r in pair(dict(noise=0), dict(noise=0), by="short_name", device="gpu")}
    assert short == {"cutlass::conv"}


def test_shifted_scaled_and_shuffled_traces(tmp_path):
    """Moving a trace in time and permuting its events changes nothing; twice the time is twice every duration."""
    a, b = Program(seed=3), Program(seed=4, conv=50)
    plain = tg.diff(a.write(tmp_path, "a.json"), b.write(tmp_path, "b.json")).to_dicts()
    for program in (a, b):
        for event in program.events:
            event["ts"] = round(event["ts"] + 777_777, 3)
        random.Random(1).shuffle(program.events)
    assert sorted(tg.diff(a.write(tmp_path, "a.json"), b.write(tmp_path, "b.json")).to_dicts(), key=str) == sorted(
        plain, key=str
    )
    for program in (a, b):
        for event in program.events:
            event["ts"], event["dur"] = round(event["ts"] * 2, 3), round(event["dur"] * 2, 3)
    doubled = tg.diff(a.write(tmp_path, "a.json"), b.write(tmp_path, "b.json"))
    for row in plain:
        twice = rows(doubled)[row["by"], row["name"], row["quantity"]]
        factor = 2 if row["unit"] == "ns" else 1
        for key in ("a", "b", "delta", "low", "high"):
            assert twice[key] == pytest.approx(factor * row[key], rel=1e-5, abs=0.5)
        assert twice["verdict"] == row["verdict"]


def test_swapping_the_sides_turns_the_sign(pair):
    forth, back = pair(dict(seed=3), dict(seed=4, conv=50)), pair(dict(seed=4, conv=50), dict(seed=3))
    for key, row in rows(forth).items():
        assert rows(back)[key]["delta"] == -row["delta"]
    assert ("slower" in forth.headline, "faster" in back.headline) == (True, True)


def test_pages(pair):
    diff = pair(dict(seed=1, steps=30), dict(seed=2, steps=30, slow={"conv": 1.6}, name="a|b`c<1>"))
    assert str(diff).startswith(diff.headline + "\n") and "aten::conv2d" in str(diff)
    assert diff.markdown().startswith("### " + diff.headline) and "| `aten::conv2d` self_cpu |" in diff.markdown()
    assert "a\\|b'c" in diff.markdown() and "<b>" in diff._repr_html_()
    assert diff.to_pandas().set_index(["by", "name", "quantity"]).loc[("step", "step", "p50"), "verdict"] == "slower"


def test_ranks_of_one_job_are_no_more_steps(tmp_path):
    """Two ranks that do the same at the same time tell no more than one: the same figures, the same intervals. The
    longer one's last step, which the other lacks, is left out."""
    for side, program in (("a", Program(seed=1, steps=12)), ("b", Program(seed=2, steps=12, conv=50))):
        (tmp_path / side).mkdir()
        program.write(tmp_path, f"{side}.json")
        for rank in range(2):
            program.document["distributedInfo"] = {"rank": rank, "world_size": 2, "backend": "gloo"}
            program.write(tmp_path / side, f"rank{rank}.json")
            program.step(12, 50000.0, {})
    one, two = rows(tg.diff(tmp_path / "a.json", tmp_path / "b.json")), tg.diff(tmp_path / "a", tmp_path / "b")
    assert any("mean over 2 ranks" in note for note in two.notes) and any(
        "1 step at the end left out" in note for note in two.notes
    )
    for key, row in rows(two).items():
        for column in ("a", "b", "delta", "low", "high"):
            assert row[column] == pytest.approx(one[key][column], rel=1e-6, abs=0.01), (key, column)
        assert row["verdict"] == one[key]["verdict"]


@pytest.mark.timing
def test_recordings_of_one_program_and_of_slower_ones(tmp_path):
    """Recorded for real: three times the same loop, one in which a layer waits a tenth of the step longer, and one that
    waits twice as long. The test's own clock says what a busy machine made of that: the figures are those, and the
    verdicts follow from them."""
    torch = pytest.importorskip("torch")
    import time

    took = {}

    def record(name, wait):
        path = tmp_path / f"{name}.json"
        layer, batch = torch.nn.Linear(8, 8), torch.zeros(4, 8)
        ends = []
        with tg.profile(
            schedule=tg.schedule(wait=1, warmup=1, active=12),
            on_trace_ready=lambda prof: prof.export_chrome_trace(str(path)),
        ) as prof:
            for _ in range(14):
                with tg.record_function("forward"):
                    layer(batch)
                    time.sleep(wait)
                ends.append(time.perf_counter())
                prof.step()
        took[path] = [after - before for before, after in zip(ends[1:], ends[2:])]  # the twelve that are recorded
        return path

    same = [record(f"same{k}", 0.03) for k in range(3)]
    slower, twice = record("slower", 0.033), record("twice", 0.06)
    for a, b in ((same[0], same[1]), (same[1], same[2]), (same[0], same[2]), (same[0], slower), (same[0], twice)):
        diff = tg.diff(a, b)
        row = rows(diff)["step", "step", "p50"]
        found, certain = row["delta_pct"], row["low"] > 0
        assert found == pytest.approx(100 * (statistics.median(took[b]) / statistics.median(took[a]) - 1), abs=3)
        if abs(found) < 2:  # the least that counts as a change
            assert diff.headline.startswith("No difference")
        if 1.02 * max(took[a]) < min(took[b]):  # whatever the machine did, no step of B was as short as one of A
            assert "slower" in diff.headline and certain
        assert [bool(diff.failed(f"step.p50 > +{pct}%")) for pct in (5, 15, 50)] == [
            found > pct and certain for pct in (5, 15, 50)
        ]
    conditions = {r["condition"]: r for r in tg.diff(same[0], slower, by="conditions")}
    assert conditions["torch"]["a"] == torch.__version__ and conditions["threads"]["same"] is True
