"""tachograph diff and --fail-if: what is printed where, and with which exit status."""

import json

import pytest


def loop(path, us, name="aten::mm", steps=5, batch=8, **members):
    """Steps of `us` + 10 µs with one operator of `us`, no noise at all. members: of the document."""
    events = []
    for k in range(steps):
        at = 1000 + k * (us + 20)
        events.append(
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": f"ProfilerStep#{k}",
                "pid": 1,
                "tid": 1,
                "ts": at,
                "dur": us + 10,
            }
        )
        events.append(
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": name,
                "pid": 1,
                "tid": 1,
                "ts": at + 5,
                "dur": us,
                "args": {"Input Dims": [[batch, 4], [4, 4]]},
            }
        )
    path.write_text(json.dumps({**members, "traceEvents": events}))
    return path


@pytest.fixture
def pair(tmp_path):
    return loop(tmp_path / "a.json", 90), loop(tmp_path / "b.json", 100)


def test_page(tachograph, pair):
    done = tachograph("diff", *pair)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "B is 10.0 % slower: 100 → 110 us a step (95 %: 10.0 … 10.0 %)"
    assert lines[1] == "the median of 5 steps of A and 5 of B"
    row = next(line for line in lines if line.startswith("  aten::mm"))
    assert row.split() == "aten::mm self_cpu 90.0 us 100 us +10.0 us (+11.1 %) +10.0 us … +10.0 us slower".split()
    assert tachograph("compare", *pair).stdout == done.stdout
    assert lines[-1] == "  1 operator without difference" and "\033" not in done.stdout
    assert "\033[31mslower" in tachograph("diff", *pair, "--color", "always").stdout


def test_json_csv_and_markdown(tachograph, pair, tmp_path):
    answer = json.loads(tachograph("diff", *pair, "--json", "--by", "op", "--where", 'quantity = "self_cpu"').stdout)
    assert answer["question"] == "diff" and answer["rows"] == [
        ["op", "aten::mm", "self_cpu", "ns", 90000, 100000, 10000, pytest.approx(100 / 9), 10000, 10000, "slower"]
    ]
    assert (
        tachograph("diff", *pair, "-f", "csv", "--by", "step")
        .stdout.splitlines()[1]
        .startswith("step,step,p50,ns,100000,110000,10000,10,")
    )
    tachograph("diff", *pair, "--markdown", "-o", tmp_path / "diff.md")
    assert (tmp_path / "diff.md").read_text().startswith("### B is 10.0 % slower")
    for wrong in (["--markdown", "--json"], ["--markdown", "--by", "name"]):
        done = tachograph("diff", *pair, *wrong)
        assert done.returncode == 2 and "--markdown" in done.stderr


@pytest.mark.parametrize(
    "tests, status, said",
    [
        (["step.p50 > +5%"], 1, "step p50 is 0.1 ms in A and 0.11 ms in B (+10.0 %)"),
        (["step.p50 > +15%"], 0, ""),
        (["step.p50 > +15%", "op.self_cpu >= 10us"], 1, "op.self_cpu >= 10us holds: aten::mm"),
        (["step.p5 > 1%"], 2, "did you mean p50?"),
        (["memory.peak > 1%"], 3, "profile_memory=True"),
        (["step.p50 > +5%", "nonsense > 1"], 2, "no kind 'nonsense'"),
    ],
)
def test_fail_if(tachograph, pair, tests, status, said):
    words = [word for test in tests for word in ("--fail-if", test)]
    done = tachograph("diff", *pair, "--by", "category", *words)
    assert done.returncode == status and said in done.stderr
    assert done.stdout.startswith("B is 10.0 % slower")


def test_fail_if_of_ask_and_of_a_question(tachograph, pair):
    a, b = pair
    assert tachograph("ask", a, "ops", "--fail-if", "cpu_ns > 1ms", "--fail-if", "calls > 4").returncode == 1
    assert tachograph("ask", a, "ops", "--fail-if", "calls > 5", "--fail-if", "cpu_ns > 1ms").returncode == 0
    done = tachograph("diff", a, b, "--question", "ops", "--columns", "cpu_ns", "--fail-if", "cpu_ns_delta > 40us")
    assert done.returncode == 1 and "cpu_ns_delta > 40us holds for 1 of 1 rows" in done.stderr
    assert done.stdout.split("\n")[2].split() == ["aten::mm", "both", "450", "us", "500", "us", "50.0", "us"]
    assert tachograph("diff", a, b, "--question", "ops", "--fail-if", "cpu_ns_delta > 60us").returncode == 0


def test_other_work_is_not_judged(tachograph, tmp_path):
    a, b = loop(tmp_path / "a.json", 90, batch=8), loop(tmp_path / "b.json", 180, batch=16)
    done = tachograph("diff", a, b, "--fail-if", "step.p50 > +5%")
    assert done.stdout.startswith("No verdict: batch_size differs, 8 in A and 16 in B; 100 → 190 us a step")
    assert done.returncode == 3 and "--by conditions" in done.stderr
    assert tachograph("diff", a, b, "--fail-if", "step.p50 > +5%", "--accept", "batch_size").returncode == 1
    done = tachograph("diff", a, b, "--accept", "batchsize")
    assert done.returncode == 2 and "did you mean batch_size?" in done.stderr


def test_a_change_between_too_few_steps_is_not_judged(tachograph, tmp_path):
    a, b = loop(tmp_path / "a.json", 90, steps=2), loop(tmp_path / "b.json", 180, steps=5)
    for test in ("step.p50 > +5%", "step.p50 > +500%", "op > +1ms"):
        done = tachograph("diff", a, b, "--fail-if", test)
        assert done.returncode == 3
        assert f"fail-if: not judged: {test}: a change of times needs 3 steps on both sides" in done.stderr
    assert tachograph("diff", a, b, "--fail-if", "step.p50 > 150us").returncode == 1  # no change, no noise
    assert tachograph("diff", a, b, "--fail-if", "step.p50 > 250us").returncode == 0
    assert tachograph("diff", a, b, "--fail-if", "op.calls > +5%").returncode == 0


def test_a_gate_is_not_judged_where_others_kept_the_machine_busy(tachograph, tmp_path):
    a, b = (
        loop(tmp_path / "a.json", 90),
        loop(tmp_path / "b.json", 180, core_wait_pct=40, conditions={"others_pct": 90}),
    )
    for test in ("step.p50 > +5%", "step.p50 < -5%", "category.time > 1s"):
        done = tachograph("diff", a, b, "--fail-if", test)
        assert done.returncode == 3, done
        assert f"fail-if: not judged: {test}: other programs kept the machine busy during B; 100" in done.stderr
        assert "; record both again on a quiet machine" in done.stderr


def test_a_gate_is_not_judged_where_who_had_the_core_is_not_known(tachograph, tmp_path):
    a, b = loop(tmp_path / "a.json", 90), loop(tmp_path / "b.json", 180, core_wait_pct=40)
    done = tachograph("diff", a, b, "--fail-if", "step.p50 > +5%")
    assert done.returncode == 3, done
    assert "other programs or its own threads kept the loop from a core during B; 100" in done.stderr
    assert "; record both again on a quiet machine" in done.stderr


def test_a_gate_that_fails_outweighs_one_that_cannot_be_judged(tachograph, tmp_path):
    a, b = loop(tmp_path / "a.json", 90, batch=8), loop(tmp_path / "b.json", 180, batch=16)
    unjudged, holds, passes = "step.p50 > +5%", "op.calls >= 1", "op.calls > 5"
    for tests, status in (
        ((unjudged, holds), 1),
        ((holds, unjudged), 1),
        ((unjudged, passes), 3),
        ((passes, unjudged), 3),
    ):
        done = tachograph("diff", a, b, *(word for test in tests for word in ("--fail-if", test)))
        assert done.returncode == status, tests
        assert f"not judged: {unjudged}: batch_size differs, 8 in A and 16 in B" in done.stderr
        assert ("threshold failed: op.calls >= 1 holds" in done.stderr) == (holds in tests)


@pytest.mark.parametrize(
    "words, said",
    [
        (["--by", "opp"], "did you mean op?"),
        (["--least", "much"], "is not a share"),
        (["--lest", "1%"], "--least"),
        (["--limit", "few"], "is not a number of rows"),
        (["--by", "name", "--rules", "his"], "exact and hta"),
        (["--question", "opps"], "did you mean ops?"),
        (["--question", "ops", "--columns", "cpu"], "did you mean cpu_ns?"),
        (["--min-us", "3"], "a diff takes no argument 'min_us'"),
        (["--by", "name", "--device", "tpu"], "all, cpu and gpu"),
    ],
)
def test_nonsense(tachograph, pair, words, said):
    done = tachograph("diff", *pair, *words)
    assert done.returncode == 2 and said in done.stderr, done.stderr


def test_files_that_cannot_be_compared(tachograph, pair, tmp_path):
    a, _ = pair
    assert tachograph("diff", a).returncode == 2
    assert tachograph("diff", a, tmp_path / "none.json").returncode == 4
    empty = tmp_path / "empty.json"
    empty.write_text('{"traceEvents": [{"ph": "i", "name": "mark", "pid": 1, "tid": 1, "ts": 1}]}')
    done = tachograph("diff", a, empty)
    assert done.returncode == 3 and "nothing to compare" in done.stderr


def test_a_side_that_is_not_whole_is_said_to_be(tachograph, pair, tmp_path):
    a, b = pair
    cut = tmp_path / "cut.json"
    cut.write_text(b.read_text()[:-120])
    said = "is not whole: the input ends in the middle of an event"
    for sides, letter in (((a, cut), "B"), ((cut, a), "A")):
        page = tachograph("diff", *sides).stdout
        assert page.count(said) == 1 and f"\n{letter} {said}\n" in page
        assert f"- {letter} {said}\n" in tachograph("diff", *sides, "--markdown").stdout
        assert f"note: {letter} {said}" in tachograph("diff", *sides, "--question", "ops").stdout
    run = tmp_path / "run"
    run.mkdir()
    for name in ("rank-0.json", "rank-1.json"):
        (run / name).write_text(a.read_text())
    assert "not whole" not in tachograph("diff", run, a).stdout
    (run / "rank-2.json").write_text("no trace")
    assert "\nA is not whole: file in the folder that is no readable trace\n" in tachograph("diff", run, a).stdout


def test_which_side_lacks_the_data(tachograph, pair):
    a, b = pair
    later = b.with_name("later.json")
    later.write_text(b.read_text().replace("ProfilerStep#", "ProfilerStep#1"))
    for words in ([], ["--question", "ops"], ["--by", "name"]):
        done = tachograph("diff", a, later, "--step", "3", *words)
        assert done.returncode == 3 and done.stderr.startswith(
            "tachograph: B: step 3 is not in rank 0, which has 5 steps numbered 10 to 14"
        )
        assert f"next: tachograph report {later}" in done.stderr
        assert tachograph("diff", later, a, "--step", "3", *words).stderr.startswith("tachograph: A: step 3")


def with_devices(path, into, *names):
    document = json.loads(path.read_text())
    document["deviceProperties"] = [{"id": k, "name": name} for k, name in enumerate(names)]
    into.write_text(json.dumps(document))
    return into


def test_equal_devices_are_counted(tachograph, pair):
    a = with_devices(pair[0], pair[0].with_name("two.json"), "V100", "V100")
    b = with_devices(pair[1], pair[1].with_name("four.json"), "V100", "A100", "A100", "A100")
    assert tachograph("diff", a, b).stdout.startswith(
        "No verdict: devices differ, 2 x V100 in A and V100, 3 x A100 in B;"
    )


def test_names_in_notes_are_text_alone(tachograph, pair):
    a = with_devices(pair[0], pair[0].with_name("one.json"), "<img>*x*\u001b[31m\nB is 90 % faster")
    b = with_devices(pair[1], pair[1].with_name("other.json"), "A100")
    page = tachograph("diff", a, b).stdout
    assert "\033" not in page and "\nB is 90" not in page
    marked = tachograph("diff", a, b, "--markdown").stdout
    assert r"\<img>\*x\*" in marked and "\033" not in marked and "\nB is 90" not in marked
    assert "| `p50` | 100 us | 110 us |" in marked and "| `aten::mm` self_cpu |" in marked


def test_an_answer_does_not_replace_the_trace(tachograph, pair):
    a, b = pair
    before = a.read_bytes()
    link = a.with_name("link.json")
    link.symlink_to(a)
    for words in (["report", a], ["ask", a, "ops"], ["diff", b, a], ["export", a], ["report", link]):
        done = tachograph(*words, "-o", a)
        assert done.returncode == 2 and "would replace the trace that is read" in done.stderr
        assert a.read_bytes() == before
    assert tachograph("report", a, "-o", b).returncode == 0
