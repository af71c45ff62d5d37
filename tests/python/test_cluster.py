"""tachograph.cluster and --on with threads of this process: answers as of one machine, missing ranks named, errors in
one sentence. Ray itself: tests/field/test_real_ray.py."""

import json
import os
import shutil
import socket
import subprocess
import sys

import pytest
import rank_runs
import tachograph as tg
from tachograph import cluster
from tachograph.cluster import _engines, _tree, _work

QUESTIONS = ["ranks", "collectives", "stragglers", "clocks", "spread"]
NO_RAY = "import sys; sys.modules['ray'] = None"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Forty ranks, which is two levels of merging and a block that is not full."""
    folder = tmp_path_factory.mktemp("ranks") / "run"
    rank_runs.write(folder, rank_runs.make_run(7, ranks=40))
    return folder


@pytest.fixture
def command(tachograph):
    return lambda *words, **env: tachograph(*words, env={"TACHOGRAPH_PYTHON": sys.executable, **env})


def rows(done):
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    return answer["columns"], answer["rows"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_answer_is_that_of_one_machine(command, run, question):
    assert rows(command("ask", run, question, "--on", "local", "--json")) == rows(
        command("ask", run, question, "--json")
    )


def test_the_summary_is_the_same_file(command, run, tmp_path):
    for name, more in (("one", ()), ("tree", ("--on", "local", "-j", "3"))):
        assert command("summarize", run, "-o", tmp_path / f"{name}.tsum", *more).returncode == 0
    assert (tmp_path / "one.tsum").read_bytes() == (tmp_path / "tree.tsum").read_bytes()


def test_diff_compares_what_summaries_answer(command, run):
    words = ("diff", run, run, "--question", "ranks", "--json")
    assert rows(command(*words, "--on", "local")) == rows(command(*words))


def test_a_missing_rank_is_named_and_the_others_answer(command, run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    (folder / "rank003.json").write_text('{"no": "trace"}')
    alone, here = command("ask", folder, "ranks", "--json"), command("ask", folder, "ranks", "--on", "local", "--json")
    assert rows(here) == rows(alone) and len(rows(here)[1]) == 39
    said, found = json.loads(alone.stdout), json.loads(here.stdout)
    assert found["losses"] == said["losses"] and found["losses"][0]["name"] == "skipped_file"
    named = [note for note in found["notes"] if note.startswith("missing: ")]
    assert len(named) == 1 and "rank003.json" in named[0] and "not a trace" in named[0]
    done = command("summarize", folder, "--on", "local", "-o", tmp_path / "x.tsum")
    assert done.returncode == 0 and "rank003.json" in done.stderr
    with cluster.open_ranks(folder) as ranks:
        assert [row["file"] for row in ranks.ask("losses")] == [str(folder / "rank003.json")]


def test_a_rank_that_vanishes_meanwhile_is_missing(run, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    listed = _work.list_ranks([str(folder)])
    (folder / "rank005.json").unlink()
    monkeypatch.setattr(_tree, "list_ranks", lambda paths: listed)
    with cluster.open_ranks(folder) as ranks:
        (row,) = ranks.ask("losses")
        assert row["file"].endswith("rank005.json") and "there is no file" in row["meaning"]
        assert len(ranks.ask("ranks")) == 39


def test_ranks_are_found_as_one_machine_finds_them(run, tmp_path):
    (tmp_path / "rank_0").mkdir()
    (tmp_path / "rank_1").mkdir()
    for place in (0, 1):
        shutil.copy(run / f"rank00{place}.json", tmp_path / f"rank_{place}" / "trace.json")
    (tmp_path / "notes.txt").write_text("no trace")
    expected = [(str(tmp_path / f"rank_{i}" / "trace.json"),) for i in (0, 1)]
    assert _work.list_ranks([str(tmp_path)]) == (expected, None)
    assert _work.list_ranks([f"{tmp_path}/rank_*"]) == (expected, None)
    assert _work.list_ranks([f"{tmp_path}/rank_*/*.json"]) == (expected, None)


def test_files_of_a_recording_that_was_cut_short_are_one_task(tmp_path):
    (tmp_path / "raw").mkdir()
    files = [tmp_path / "raw" / name for name in ("1.tacho", "2.tacho")]
    for file in files:
        file.write_bytes(b"")
    assert _work.list_ranks([str(tmp_path)]) == ([tuple(map(str, files))], None)


def test_ranks_behind_a_url(command, run):
    """A file system of fsspec that is no disk of ours: what it lists is fetched, summarized and removed."""
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    store.put(f"{run}/", "/bucket/run/", recursive=True)
    with cluster.open_ranks("memory://bucket/run") as there, tg.open_ranks(run) as here:
        for question in QUESTIONS:
            assert list(there.ask(question)) == list(here.ask(question))
    store.rm("/bucket", recursive=True)


def test_every_task_removes_its_files(run, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cluster.open_ranks(run).close()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "words, status, sentence",
    [
        (("ask", "RUN", "ops", "--on", "local"), 2, "ops needs the events: leave out --on"),
        (("diff", "RUN", "RUN", "--on", "local"), 2, "say --question ranks"),
        (("ask", "RUN", "ranks", "--on", "dask"), 2, "'dask' is no engine: local, or ray://HOST:PORT"),
        (("ask", "/nowhere/*.json", "ranks", "--on", "local"), 4, "no ranks match /nowhere/*.json"),
        (("ask", "nosuch://x", "ranks", "--on", "local"), 4, "nosuch://x cannot be listed: Protocol not known: nosuch"),
        (("ask", "/nowhere.json", "ranks", "--on", "local"), 4, "there is no file '/nowhere.json'"),
        (("summarize", "s3://b/run", "--on", "local"), 2, "say where to save"),
    ],
)
def test_errors_are_one_sentence(command, run, words, status, sentence):
    done = command(*[str(run) if word == "RUN" else word for word in words])
    assert done.returncode == status and sentence in done.stderr and "Traceback" not in done.stderr


def test_without_ray_the_sentence_says_how_to_get_it():
    code = f"{NO_RAY}\nfrom tachograph import cluster\ncluster.open_ranks('x', on='ray://localhost:10001')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "Ray is not installed here: pip install 'tachograph[ray]', or use --on local" in done.stderr


def test_without_fsspec_a_url_says_what_reads_it():
    code = "import sys; sys.modules['fsspec.core'] = None\nfrom tachograph import cluster\ncluster.open_ranks('s3://b/run')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "s3://b/run cannot be listed: fsspec is not installed, which reads URLs: pip install fsspec" in done.stderr


def test_json_has_the_error(command):
    done = command("ask", "/nowhere/*.json", "ranks", "--on", "local", "--json")
    assert json.loads(done.stdout)["error"]["text"].startswith("no ranks match")


def test_reading_imports_neither_ray_nor_fsspec(run):
    code = f"import sys\nfrom tachograph import cluster\ncluster.open_ranks({str(run)!r})\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"ray", "fsspec", "torch"} & set(done.stdout.split())


class Breaking(_engines.Local):
    """Threads, where the work of some ranks, or all merging, breaks as it does at a worker without room."""

    def __init__(self, broken):
        super().__init__(2)
        self.broken = broken

    def submit(self, work, *args, parts=()):
        if (args and args[0] in self.broken) or work.__name__ in self.broken:
            work, args, parts = self.fail, (), ()
        return super().submit(work, *args, parts=parts)

    def fail(self):
        raise OSError("host7: No space left on device")


def test_a_worker_without_room_loses_its_ranks_alone(run, tmp_path):
    with Breaking([4, 39]) as engine:
        found = _tree.gather(str(tmp_path), [str(run)], engine, None)
    assert [(os.path.basename(path), why) for path, why in found.missing] == [
        ("rank004.json", "host7: No space left on device"),
        ("rank039.json", "host7: No space left on device"),
    ]
    with _tree.open_gathered(found) as ranks:
        assert len(ranks.ask("ranks")) == 38


def test_merging_that_fails_ends_with_the_cause(run, tmp_path):
    with Breaking(["merge_summaries"]) as engine, pytest.raises(cluster.ClusterError, match="No space left on device"):
        _tree.gather(str(tmp_path), [str(run)], engine, None)


def test_a_full_disk_is_told_apart_from_a_bad_trace(run, monkeypatch):
    def save(self, path):
        error = tg.TachographError(f"could not write {path}: is the disk full?")
        error.code = "IO"
        raise error

    monkeypatch.setattr(tg.Trace, "save", save)
    with pytest.raises(OSError, match="is the disk full"):
        _work.summarize_rank(0, (str(run / "rank000.json"),))


def test_a_full_disk_names_the_rank_and_the_machine(run):
    """No file may grow beyond 100 bytes, so no summary can be kept."""
    code = f"""
import resource
from tachograph import cluster
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    cluster.open_ranks({str(run)!r})
except cluster.ClusterError as error:
    print(error)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(
        f"none of the 40 ranks could be read; {run}/rank000.json says: {socket.gethostname()}: "
    )
    assert "could not write" in done.stdout or "too large" in done.stdout


def test_a_folder_that_takes_no_file_is_named(run):
    with pytest.raises(cluster.ClusterError, match="goes to /nowhere first; TMPDIR names another place"):
        cluster.gather("/nowhere", (run,), "local", 1, False)


def test_versions_that_differ_are_named():
    assert _engines.version_sentence("10.0.0.3", "3.12.1", "0.0.9").startswith(
        f"the node 10.0.0.3 has tachograph 0.0.9 (Python 3.12.1), and here is {tg.__version__} "
    )
    assert "has no tachograph" in _engines.version_sentence("10.0.0.3", "3.12.1", "")


def test_progress_counts_ranks(run):
    seen = []
    cluster.open_ranks(run, progress=lambda done, total: seen.append((done, total))).close()
    assert seen[-1] == (40, 40) and seen == sorted(seen)


@pytest.mark.parametrize("count, merges", [(1, 0), (2, 1), (16, 1), (17, 2), (256, 17), (257, 18)])
def test_the_depth_of_the_tree(count, merges):
    """Sixteen at a time: n ranks need at most ceil(log16 n) levels; a single summary is not merged again."""

    class Counting(_engines.Local):
        calls = 0

        def submit(self, work, *args, parts=()):
            self.calls += work is _work.merge_summaries
            return super().submit(lambda *_: (b"", None), *args, parts=parts)

    with Counting(1) as engine:
        tree = _tree.Tree(engine, [("x",)] * count)
        tree.run(None)
        assert engine.calls == merges and 16 ** (len(tree.levels) - 1) >= count
