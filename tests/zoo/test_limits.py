"""Traces that say too little: findings say what they leave open, and which recording would tell."""

import json
import subprocess

import synthetic as zoo
from test_synthetic import TACHOGRAPH, ask


def drop(program, unwanted):
    program.events = [e for e in program.events if not unwanted(e)]
    return program


def write_rank(program, path, rank, world):
    program.write(path)
    document = json.loads(path.read_text())
    document["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world}
    path.write_text(json.dumps(document))
    return path


def ask_path(path):
    done = subprocess.run([TACHOGRAPH, "ask", path, "findings", "--json"], capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)


def says(notes, words):
    return any(words in n for n in notes)


def test_one_step(tmp_path):
    _, notes = ask(tmp_path, zoo.steady(steps=1))
    assert says(notes, "1 step: whether it is usual is not known; record 5 or more"), notes
    _, notes = ask(tmp_path, zoo.steady(steps=5))
    assert not says(notes, "is not known"), notes


def test_no_steps(tmp_path):
    program = drop(zoo.steady(), lambda e: e["name"].startswith("ProfilerStep"))
    _, notes = ask(tmp_path, program)
    assert says(notes, "no steps are marked") and says(notes, "call prof.step() once an iteration"), notes


def test_only_kernels(tmp_path):
    program = drop(zoo.launch_bound(), lambda e: e["cat"] != "kernel")
    status, answer = ask_path(program.write(tmp_path / "trace.json"))
    assert status == 3 and "record with ProfilerActivity.CPU" in answer["error"]["text"]


def test_only_the_host(tmp_path):
    rows, notes = ask(tmp_path, drop(zoo.steady(), lambda e: e["cat"] == "kernel"))
    assert not rows and says(notes, "a device is used and was not recorded; add ProfilerActivity.CUDA"), notes


def test_one_rank_of_many(tmp_path):
    """Whether a collective is slow is unknown where one rank waits in it: that is never high."""
    path = write_rank(zoo.exposed_collective(8000), tmp_path / "rank.json", 0, 8)
    _, answer = ask_path(path)
    assert says(answer["notes"], "1 of 8 ranks: whether a collective is slow or waits for another rank"), answer
    assert [row[:2] for row in answer["rows"]] == [["communication-not-overlapped", "medium"]]


def test_missing_ranks(tmp_path):
    for rank in (0, 1, 3):
        write_rank(zoo.exposed_collective(200), tmp_path / f"rank{rank}.json", rank, 4)
    _, answer = ask_path(tmp_path)
    assert says(answer["notes"], "3 of 4 ranks: whether a rank that is missing"), answer["notes"]
    write_rank(zoo.exposed_collective(200), tmp_path / "rank2.json", 2, 4)
    _, answer = ask_path(tmp_path)
    assert not says(answer["notes"], "of 4 ranks"), answer["notes"]


def test_warm_up_dominates(tmp_path):
    """Six steps of 40 ms and four of 4 ms: the first five have a median of 40, the last two of 4."""
    _, notes = ask(tmp_path, zoo.slow_first_steps(slow=6, steps=10))
    assert says(notes, "the first half of the steps takes 40.00 ms each, the last quarter 4.00 ms"), notes
    _, notes = ask(tmp_path, zoo.slow_first_steps(slow=2, steps=10))
    assert not says(notes, "warming up"), notes


def test_compiling_dominates(tmp_path):
    """18.98 ms of three steps of 20 ms."""
    _, notes = ask(tmp_path, zoo.recompiles(every=100, steps=3, dur=19000))
    assert says(notes, "torch.compile works for 31.6 % of the time"), notes


def test_window_cut_in_a_batch(tmp_path):
    """The last step has half of its kernels: it is left out, and said to be."""
    program = drop(zoo.steady(), lambda e: e["cat"] == "kernel" and e["ts"] > 110000)
    rows, notes = ask(tmp_path, program)
    assert not rows and says(notes, "left out: 1 step at the end, cut before its device work ended"), notes


def test_clocks_that_disagree(tmp_path):
    """The device's clock falls back by 30 ms after three of six steps: kernels begin before their calls."""
    program = zoo.steady()
    for e in program.events:
        if e["cat"] == "kernel" and e["ts"] > 60000:
            e["ts"] -= 30000
    _, notes = ask(tmp_path, program)
    assert says(notes, "120 of 240 kernels and copies begin before the call that launches them"), notes


def test_clocks_that_agree_well_enough(tmp_path):
    """Each kernel of a launch-bound program begins 10 us before its call: as well as clocks are brought together."""
    program = zoo.launch_bound()
    for e in program.events:
        if e["cat"] == "kernel":
            e["ts"] -= 17
    _, notes = ask(tmp_path, program)
    assert not says(notes, "clocks of host and device"), notes


def test_a_clock_that_jumps(tmp_path):
    program = zoo.steady()
    for e in program.events:
        if e["ts"] >= 60000:
            e["ts"] += 3_600_000_000
    rows, notes = ask(tmp_path, program)
    assert not rows and says(notes, "3600.00 s lie between two steps: the clock jumped"), notes
    assert not says(notes, "device busy 0.0 %"), notes
