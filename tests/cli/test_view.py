"""tachograph view: which clients are let in, what is served, and every call of docs/viewer-api.md on a trace written by
hand."""

import http.client
import json
import os
import pathlib
import pickle
import signal
import socket
import struct
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest
from ws_client import Closed, Refused, Socket

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import snapshots

BIN = os.environ.get("TACHOGRAPH", "build/tachograph")
DOCTOR = json.loads(subprocess.run([BIN, "doctor", "--json"], capture_output=True, timeout=600).stdout)["rows"]
pytestmark = pytest.mark.skipif(["view", "none"] in [row[:2] for row in DOCTOR], reason="a build without libwebsockets")


def event(cat, name, pid, tid, ts, dur, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


# One step of 100 µs: a Python frame, a module, an operator that launches a kernel; another kernel overlaps the first.
EVENTS = [
    event("user_annotation", "ProfilerStep#3", 1, 10, 0, 100),
    event("python_function", "train.py(3): main", 1, 10, 1, 98, **{"Python id": 1}),
    event("python_function", "nn.Module: Linear_0", 1, 10, 2, 60, **{"Python id": 2, "Python parent id": 1}),
    event("cpu_op", "aten::mm", 1, 10, 10, 40, **{"External id": 7, "Input Dims": [[2, 3], [3, 4]]}),
    event("cuda_runtime", "cudaLaunchKernel", 1, 10, 20, 5, **{"External id": 7, "correlation": 5}),
    event("cpu_op", "aten::mm", 1, 10, 70, 10, **{"External id": 8}),
    event(
        "kernel",
        "gemm<4>",
        0,
        7,
        30,
        25,
        **{"External id": 7, "correlation": 5, "stream": 7, "device": 0, "grid": [1, 2, 3]},
    ),
    event("kernel", "<script>alert(1)</script>\u202e", 0, 7, 40, 30, stream=7, device=0),
]


class Viewer:
    def __init__(self, *words):
        self.process = subprocess.Popen([BIN, "view", "--json", *map(str, words)], stdout=subprocess.PIPE, text=True)
        self.said = json.loads(self.process.stdout.readline())
        self.url = self.said["url"]
        self.parts = urlsplit(self.url)

    def request(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.parts.port, timeout=600)
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()

    def get(self, path="", **headers):
        return self.request("GET", self.parts.path + path, **headers)

    def post(self, body, **headers):
        return self.request("POST", self.parts.path + "api", body, **headers)

    def stop(self):
        self.process.terminate()
        assert self.process.wait(20) == 0


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("view")
    (folder / "train.py").write_text("import torch\n\ndef main():\n    pass\n")
    path = folder / "trace.json"
    path.write_text(json.dumps({"traceEvents": EVENTS}))
    return path


@pytest.fixture(scope="module")
def viewer(trace):
    v = Viewer(trace, trace)
    s = Socket(v.url)
    for number in (0, 1):
        s.result("tracks", trace=number)  # comes when the trace is read; tiles do not wait for it
    s.close()
    yield v
    v.stop()


@pytest.fixture()
def page(viewer):
    s = Socket(viewer.url)
    yield s
    s.close()


# ---- clients that are let in ---------------------------------------------------------------------


def test_the_address_is_of_this_machine_and_carries_a_token(viewer):
    assert viewer.said["port"] == viewer.parts.port and viewer.said["process"] == viewer.process.pid
    assert viewer.parts.hostname == "127.0.0.1" and len(viewer.parts.path.strip("/")) == 32


def test_every_answer_carries_the_policy(viewer):
    for path in ("", "main.js", "nothing.js"):
        _, headers, _ = viewer.get(path)
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("path", ["/", "/0123/", "/" + "0" * 32 + "/", "/favicon.ico", "//"])
def test_without_the_token_nothing_is_served(viewer, path):
    assert viewer.request("GET", path)[0] == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "127.0.0.1:9999"}, 200),
        ({"Host": "localhost:1234"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example:80"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_host_and_origin_are_checked(viewer, headers, status):
    assert viewer.get("", **headers)[0] == status


def test_connections_that_stay_silent_keep_nobody_out(trace):
    """They need no token; 40 of them took all places of the server for 15 s."""
    v = Viewer(trace)
    silent = [socket.create_connection(("127.0.0.1", v.parts.port), timeout=600) for _ in range(100)]
    assert v.get()[0] == 200
    silent[-1].setblocking(False)
    with pytest.raises(BlockingIOError):  # it was answered while the last of them was open
        silent[-1].recv(1)
    assert silent[0].recv(1) == b""  # and they are closed
    for s in silent:
        s.close()
    v.stop()


def test_a_websocket_passes_the_same_gate(viewer):
    for wrong in ({"origin": "http://evil.example"}, {"host": "evil.example"}, {"path": "socket"}):
        with pytest.raises(Refused):
            Socket(viewer.url, **wrong)
    with pytest.raises(Refused):
        Socket(viewer.url.replace(viewer.parts.path, "/" + "0" * 32 + "/"))
    Socket(viewer.url, origin=f"http://{viewer.parts.netloc}").close()


@pytest.mark.parametrize(
    "path",
    ["../secret", "..%2fsecret", "%2e%2e/etc/passwd", ".git", "model/../../x", "/etc/passwd", "main.js%00.css", "a\\b"],
)
def test_no_path_leads_out_of_the_pages(viewer, path):
    try:
        status = viewer.get(path)[0]
    except http.client.RemoteDisconnected:  # the library ends what is no path at all
        status = 400
    assert status in (400, 403, 404)


def test_other_methods_are_refused(viewer):
    for method in ("PUT", "DELETE"):
        assert viewer.request(method, viewer.parts.path)[0] in (403, 405)
    assert viewer.request("POST", viewer.parts.path + "main.js", b"{}")[0] == 405


# ---- calls that make no sense ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"no JSON",
        b"{",
        b'{"call":"state"}',
        b'{"id":-1,"call":"state"}',
        b'{"id":1}',
        b'{"id":1,"call":"x"}',
        b"\xff\x00",
    ],
)
def test_what_is_no_call_is_refused_in_words(viewer, body):
    status, _, answer = viewer.post(body)
    assert status == 400 and json.loads(answer)["error"]["code"] == "malformed"


@pytest.mark.parametrize(
    "members",
    [
        {"call": "tiles"},
        {"call": "tiles", "level": 45, "tiles": []},
        {"call": "tiles", "level": 3, "tiles": [99, 0]},
        {"call": "tiles", "level": 3, "tiles": [0, 1 << 31]},
        {"call": "tiles", "level": 3, "tiles": [0, 0] * 1025},
        {"call": "slice"},
        {"call": "slice", "slice": 99},
        {"call": "search"},
        {"call": "search", "text": "a{9}", "kind": "regex"},
        {"call": "search", "text": "(", "kind": "regex"},
        {"call": "search", "text": "x", "limit": 1e9},
        {"call": "aggregate", "by": "nothing"},
        {"call": "aggregate", "start_ns": 5, "end_ns": 5},
        {"call": "aggregate", "tracks": [77]},
        {"call": "flows", "limit": -1},
        {"call": "ask", "question": "nothing"},
        {"call": "ask", "question": "steps", "args": {"nothing": "1"}},
        {"call": "ask", "question": "diff"},
        {"call": "ask", "question": "sql"},
        {"call": "ask", "trace": 9, "question": "steps"},
        {"call": "source", "file": "train.py", "line": 0},
    ],
)
def test_a_call_that_makes_no_sense_says_why(page, members):
    error = page.call(**members)["error"]
    assert error["code"] == "usage" and len(error["text"]) > 10


def test_a_message_too_long_ends_the_connection(viewer):
    s = Socket(viewer.url)
    with pytest.raises((Closed, OSError)):
        s.send_bytes(b'{"id":1,"call":"state","x":"' + b"x" * 70000)
        while True:
            s.receive()
    assert viewer.post(b" " * 70000)[0] == 413
    assert viewer.get("")[0] == 200


def test_the_refusal_arrives_though_the_body_came_first(viewer):
    """All of it lies in the server's socket before the server reads the head, as on a machine that is busy."""
    head = (
        f"POST {viewer.parts.path}api HTTP/1.1\r\nHost: 127.0.0.1:{viewer.parts.port}\r\nContent-Length: 70000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", viewer.parts.port), timeout=600) as s:
        viewer.process.send_signal(signal.SIGSTOP)
        s.sendall(head.encode() + b" " * 70000)
        viewer.process.send_signal(signal.SIGCONT)
        response = http.client.HTTPResponse(s, method="POST")
        response.begin()
        assert (response.status, response.read()) == (413, b"a call has at most 64 KiB\n")
    assert viewer.get("")[0] == 200


def test_a_message_may_come_in_pieces(page):
    page.send_bytes(b'{"id":4,"ca', first=0x01)
    page.send_bytes(b'll":"state"}', first=0x80)
    while True:
        reply = page.receive()
        if reply.get("id") == 4:
            break
    assert reply["result"]["process"] > 0


def test_a_65th_call_under_way_is_refused_and_a_cancelled_one_says_so(viewer):
    s = Socket(viewer.url)
    for i in range(200):
        s.send(id=i, call="search", text="a", limit=1000)
    s.send(id=999, call="cancel", of=63)
    seen = {}
    while len(seen) < 201:
        reply = s.receive()
        if "id" in reply:
            seen[reply["id"]] = reply.get("error", {}).get("code")
    assert set(seen.values()) <= {None, "busy", "cancelled"} and seen[0] is None and seen[999] is None
    s.close()


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"


def test_a_query_that_never_ends_is_stopped_on_request_and_with_its_client(viewer, page):
    if page.call("ask", question="sql", args={"query": "SELECT 1"}).get("error", {}).get("code") == "unsupported":
        pytest.skip("a build without SQLite")
    page.send(id=50, call="ask", question="sql", args={"query": ENDLESS})
    time.sleep(0.3)  # it runs
    page.send(id=51, call="cancel", of=50)
    replies = {}
    while len(replies) < 2:
        reply = page.receive()
        if "event" not in reply:
            replies[reply["id"]] = reply
    assert replies[51]["result"] == {} and replies[50]["error"]["code"] == "cancelled"
    other = Socket(viewer.url)
    other.send(id=1, call="ask", question="sql", args={"query": ENDLESS})
    time.sleep(0.3)
    other.close()
    began = time.monotonic()
    assert page.result("ask", question="sql", args={"query": "SELECT 7"})["rows"] == [[7]]
    assert time.monotonic() - began < 60  # the query would not have ended


def test_a_client_that_never_reads_is_dropped_and_the_others_are_served(viewer):
    deaf = Socket(viewer.url)
    deaf.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    for i in range(60):  # each reply is 2 MB
        deaf.send(id=i, call="ask", question="sql", args={"query": "SELECT hex(zeroblob(1000000)) AS zeros"})
    end = time.monotonic() + 600
    with pytest.raises(OSError):
        while time.monotonic() < end:
            deaf.send(id=60, call="state")
            time.sleep(0.1)
    s = Socket(viewer.url)
    assert s.result("state")["traces"][0]["state"] == "ready"
    s.close()
    status = pathlib.Path(f"/proc/{viewer.process.pid}/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0])
    assert peak < 200 << 10  # 64 MiB of replies, what the library holds of one, and the program itself


# ---- answers ---------------------------------------------------------------------


def test_the_page_comes_from_inside_the_program_or_from_a_folder(viewer, trace, tmp_path):
    status, headers, body = viewer.get("")
    assert status == 200 and headers["content-type"].startswith("text/html")
    assert body == pathlib.Path("web/index.html").read_bytes()
    (tmp_path / "index.html").write_text("mine")
    (tmp_path / "secret.txt").write_text("no page")
    v = Viewer("--web", tmp_path, trace)
    assert v.get("")[2] == b"mine"
    assert v.get("secret.txt")[0] == 404
    v.stop()


def test_state_names_the_traces(page, trace):
    page.result("tracks")
    state = page.result("state")
    assert [t["path"] for t in state["traces"]] == [str(trace)] * 2
    assert state["traces"][0]["state"] == "ready" and state["classes"][1] == "compute"


@pytest.mark.parametrize("words", [["kernels"], ["ops", "--by", "shape"], ["overview"], ["findings"], ["tracks"]])
def test_a_question_gives_what_the_command_line_gives(page, trace, words):
    args = dict(zip((w[2:] for w in words[1::2]), words[2::2], strict=True))
    said = subprocess.run(
        [BIN, "ask", str(trace), *words, "--json"], capture_output=True, text=True, timeout=600
    ).stdout
    assert page.result("ask", question=words[0], args=args) == json.loads(said)


def test_questions_diff_and_sql_are_tables_too(page):
    questions = page.result("ask", question="questions")
    assert ["kernels", "question", "kernels"] in [row[:3] for row in questions["rows"]]
    names = [c["name"] for c in questions["columns"]]
    mean = next(row for row in questions["rows"] if row[:3] == ["kernels", "column", "mean_ns"])
    assert (
        dict(zip(names, mean, strict=True)).items()
        >= {
            "role": "value",
            "fold": "mean",
            "of": "total_ns",
            "by": "calls",
        }.items()
    )
    assert page.result("ask", question="sql", args={"query": "SELECT count(*) AS n FROM slices"})["rows"] == [[8]]
    assert page.result("ask", question="diff", args={"against": "1"})["question"] == "diff"
    assert page.call("ask", question="diff", args={"against": "0"})["error"]["code"] == "usage"


def test_the_timeline_of_a_snapshot_reaches_to_its_last_block(tmp_path):
    """Its only slice is a range that ends long before the last event of the allocator."""
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshots.snapshot([snapshots.Device(0, 3, 300)])))
    said = subprocess.run([BIN, "ask", path, "memory_history", "--json"], capture_output=True, timeout=600).stdout
    answer = json.loads(said)
    at = [c["name"] for c in answer["columns"]].index("ts_ns")
    viewer = Viewer(path)
    page = Socket(viewer.url)
    tracks = page.result("tracks")
    page.close()
    viewer.stop()
    assert int(tracks["origin_ns"]) + tracks["end_ns"] >= max(row[at] for row in answer["rows"]) > 500_000


def test_tracks_stand_in_order_with_their_rows(page):
    t = page.result("tracks")
    assert t["origin_ns"] == "0" and t["end_ns"] == 100000 and t["steps"] == [[3, 0, 100000, 0, "ProfilerStep#3"]]
    cpu, gpu = t["tracks"]
    assert (cpu["kind"], cpu["slices"], cpu["row"], cpu["lanes"]) == ("cpu", 6, 0, [5])
    assert (gpu["kind"], gpu["slices"], gpu["row"], gpu["lanes"], gpu["stream"]) == ("device", 2, 5, [1, 1], 7)
    assert t["rows"] == 7


def test_tiles_come_as_bytes(page):
    data = page.call("tiles", number=77, level=7, tiles=[5, 0, 6, 0, 0, -1])
    assert struct.unpack_from("<6I", data) == (77, len(data), 0, 1, 7, 3)
    row, tile, kind, n = struct.unpack_from("<IiHH", data, 24)
    assert (row, tile, kind, n) == (5, 0, 0, 3)
    at = 36  # 30 µs … 55 µs in columns of 128 ns: 234.375 … 429.6875
    slices, names = struct.unpack_from("<3I", data, at), struct.unpack_from("<3I", data, at + 12)
    assert len(set(slices)) == 1
    assert struct.unpack_from("<6H", data, at + 24) == (234, 235, 429, 1, 194, 1)
    assert struct.unpack_from("<3B", data, at + 36) == (1 + 80 * 254 // 128, 255, 1 + 88 * 254 // 128)
    assert struct.unpack_from("<3B", data, at + 39) == (1, 1, 1)
    assert page.result("names", names=[names[0], 1 << 30])["texts"] == ["gemm<4>", None]
    assert (len(data) - 24 - 3 * 12) % 16 == 0


def find(page, text):
    return page.result("search", text=text, kind="exact")["hits"]


def test_counters_memory_and_instants_have_rows(tmp_path):
    memory = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 10, "s": "t"}
    totals = [(20, 512, 4096), (60, -512, 3584)]
    events = [
        *({**memory, "ts": ts, "args": memory_args(size, total)} for ts, size, total in totals),
        {"ph": "C", "name": "load", "pid": 1, "tid": 0, "ts": 30, "args": {"load": 0.25}},
        {"ph": "C", "name": "load", "pid": 1, "tid": 0, "ts": 50, "args": {"load": 0.75}},
        {"ph": "C", "name": "process RSS bytes", "pid": 1, "tid": 0, "ts": 50, "args": {"value": 4096}},
        {"ph": "i", "name": "saved", "pid": 1, "tid": 10, "ts": 90, "s": "t"},
    ]
    file = tmp_path / "t.json"
    file.write_text(json.dumps({"traceEvents": EVENTS + events}))
    viewer = Viewer(file)
    page = Socket(viewer.url)
    tracks = page.result("tracks")
    shown = [(t["kind"], t["process"], t["name"], t.get("unit"), t.get("max"), t["slices"]) for t in tracks["tracks"]]
    assert shown[2:] == [
        ("counter", "device memory", "GPU0 allocated", "bytes", 4096, 2),
        ("counter", "device memory", "GPU0 reserved", "bytes", 8192, 2),
        ("counter", "counters", "load", "", 0.75, 2),
        ("counter", "counters", "process RSS bytes", "bytes", 4096, 1),
        ("marks", "1", "instants of thread 10", None, None, 1),
    ]
    rows = [t["row"] for t in tracks["tracks"][2:]]
    assert tracks["rows"] == rows[-1] + 1
    kinds = []
    for row in rows:
        reply = page.call("tiles", level=7, tiles=[row, 0])  # a column is 128 ns
        kind, n = struct.unpack_from("<HH", reply, 32)
        kinds.append((kind, n))
    assert kinds == [(1, 2), (1, 2), (1, 2), (1, 1), (2, 1)]
    least, most, last = (
        struct.unpack_from("<2f", page.call("tiles", level=7, tiles=[rows[2], 0]), 36 + 8 * k) for k in range(3)
    )
    assert least == most == last == (0.25, 0.75)
    (column,) = struct.unpack_from("<H", page.call("tiles", level=7, tiles=[rows[4], 0]), 36 + 8)
    assert column == 90000 // 128
    page.close()
    viewer.stop()


def memory_args(size, total):
    return {"Device Type": 1, "Device Id": 0, "Bytes": size, "Total Allocated": total, "Total Reserved": 8192}


def test_details_of_a_kernel_walk_back_to_the_line(page):
    (gemm,) = find(page, "gemm<4>")
    d = page.result("slice", slice=gemm["slice"])
    assert (d["start_ns"], d["dur_ns"], d["self_ns"], d["row"], d["category"]) == (30000, 25000, 25000, 5, "kernel")
    assert [c["name"] for c in d["causes"]] == ["cudaLaunchKernel", "aten::mm"]
    assert ["grid", [1, 2, 3]] in d["args"] and d["step"] == 3
    assert d["line"] == "train.py(3): main" and d["module"] == "Linear_0"
    assert d["stack"] == ["train.py(3): main", "nn.Module: Linear_0"]
    assert page.result("slice", row=5, at_ns=30000) == d
    assert page.result("slice", row=5, at_ns=90000) is None


def test_details_of_an_operator(page):
    first, second = find(page, "aten::mm")
    d = page.result("slice", slice=first["slice"])
    assert (d["self_ns"], d["children"]) == (35000, 1)  # 40 µs less the launch of 5
    assert [p["name"] for p in d["parents"]] == ["nn.Module: Linear_0", "train.py(3): main", "ProfilerStep#3"]
    assert [e["name"] for e in d["effects"]] == ["cudaLaunchKernel"] and d["effect_count"] == 1
    assert d["near"]["first_child"]["name"] == "cudaLaunchKernel" and d["near"]["next"] is None
    assert d["near"]["next_same_name"]["slice"] == second["slice"] and d["near"]["previous_same_name"] is None
    assert d["same_name"] == {"count": 2, "total_ns": 50000, "position": 0}


def test_search_counts_all_and_walks(page):
    found = page.result("search", text="MM", limit=1, columns=10)
    assert (found["count"], found["total_ns"], found["position"]) == (3, 75000, 0)  # two aten::mm and gemm
    assert [(n["text"], n["count"], n["total_ns"]) for n in found["names"]] == [
        ("aten::mm", 2, 50000),
        ("gemm<4>", 1, 25000),
    ]
    assert found["columns"] == [
        1,
        0,
        1,
        0,
        0,
        0,
        1,
        0,
        0,
        0,
    ]  # 10, 30 and 70 µs lie just before a border
    walk = [found["hits"][0]["start_ns"]]
    for _ in range(2):
        found = page.result("search", text="mm", limit=1, after=found["hits"][0]["slice"])
        walk.append(found["hits"][0]["start_ns"])
    assert walk == [10000, 30000, 70000] and found["position"] == 2
    back = page.result("search", text="mm", limit=1, after=found["hits"][0]["slice"], backwards=True)
    assert back["hits"][0]["start_ns"] == 30000 and back["position"] == 1
    assert page.result("search", text="^aten::(mm|add)$", kind="regex")["count"] == 2
    assert page.result("search", text="mm", start_ns=20000, end_ns=60000)["count"] == 1


def test_a_selection_is_summed_up(page):
    table = page.result("aggregate", start_ns=15000, end_ns=45000)
    rows = {row[0]: row[1:] for row in table["rows"]}
    assert [c["name"] for c in table["columns"]] == [
        "name",
        "calls",
        "total_ns",
        "self_ns",
        "busy_ns",
        "mean_ns",
        "max_ns",
        "share_pct",
    ]
    assert rows["aten::mm"] == [1, 30000, 25000, 30000, 40000, 40000, 100]
    assert rows["gemm<4>"] == [1, 15000, 15000, 15000, 25000, 25000, 50]
    assert rows["nn.Module: Linear_0"][2] == 0 and len(rows) == 7
    by = {
        g: page.result("aggregate", start_ns=0, end_ns=100000, by=g)["rows"]
        for g in ("class", "module", "line", "track", "step", "category", "shape")
    }
    assert sorted(row[0] for row in by["class"]) == ["annotation", "compute", "launch", "operator", "python"]
    assert sorted(row[0] or "" for row in by["module"]) == ["", "Linear_0"]
    assert sum(row[3] for row in by["track"]) == 100000 + 55000
    assert by["step"][0][0] == 3 and {row[0] for row in by["category"]} >= {"kernel", "cpu_op"}
    assert ["aten::mm", "[[2, 3], [3, 4]]"] in [row[:2] for row in by["shape"]]


def test_a_selection_leaves_out_the_profiler_and_no_share_is_above_the_window(tmp_path):
    """Two threads run the same name: added up they are twice the window. The profiler's own span is no work."""
    events = [event("cpu_op", "aten::mm", 1, tid, 0, 100) for tid in (10, 11)]
    events.append(event("Trace", "PyTorch Profiler (0)", "Spans", "PyTorch Profiler", 0, 100))
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    v = Viewer(path)
    s = Socket(v.url)
    rows = s.result("aggregate", start_ns=0, end_ns=100000)["rows"]
    assert rows == [["aten::mm", 2, 200000, 200000, 200000, 100000, 100000, 100]]
    s.close()
    v.stop()


def test_a_selection_is_compared_with_another_window(page):
    """0 to 60 us against 60 to 100: each name's total in both, by hand, those that only one of them has too."""
    table = page.result("aggregate", start_ns=0, end_ns=60000, other_start_ns=60000, other_end_ns=100000)
    columns = [c["name"] for c in table["columns"]]
    rows = {row[0]: dict(zip(columns, row, strict=True)) for row in table["rows"]}
    both = {name: (row["total_ns"], row["other_ns"], row["change_ns"]) for name, row in rows.items()}
    assert both["aten::mm"] == (40000, 10000, 30000) and both["gemm<4>"] == (25000, 0, 25000)
    assert both["train.py(3): main"] == (59000, 39000, 20000) and both["nn.Module: Linear_0"] == (58000, 2000, 56000)
    changes = [abs(row["change_ns"]) for row in rows.values()]
    assert changes == sorted(changes, reverse=True)
    later = page.result("aggregate", start_ns=90000, end_ns=100000, other_start_ns=10000, other_end_ns=50000)["rows"]
    missing = next(row for row in later if row[0] == "aten::mm")
    assert missing == ["aten::mm", 0, 0, 0, 0, 0, 0, 0, 40000, -40000]


@pytest.mark.parametrize(
    ("name", "microseconds", "look"),
    [
        ("cudaMemcpy", 126000, "wait"),
        ("cuMemcpyDtoH_v2", 5, "wait"),
        ("hipMemcpyWithStream", 9, "wait"),
        ("cudaMemcpyAsync", 5, "launch"),
        ("cudaMemcpyAsync", 126000, "wait"),
        ("cudaLaunchKernel", 126000, "launch"),
        ("cudaStreamSynchronize", 5, "wait"),
    ],
)
def test_a_copy_that_blocks_looks_like_a_wait(tmp_path, name, microseconds, look):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [event("cuda_runtime", name, 1, 10, 0, microseconds)]}))
    v = Viewer(path)
    s = Socket(v.url)
    classes = s.result("state")["classes"]
    assert classes[s.result("slice", slice=0)["class"]] == look
    s.close()
    v.stop()


def test_links_are_given_or_counted(page):
    flows = page.result("flows", start_ns=0, end_ns=100000)
    assert flows["count"] == 2 and sorted(f[6] for f in flows["flows"]) == ["call", "launch"]
    launch = next(f for f in flows["flows"] if f[6] == "launch")
    assert (launch[1], launch[2], launch[4], launch[5]) == (4, 20000, 5, 30000)
    assert page.result("flows", start_ns=0, end_ns=100000, limit=1) == {"count": 2, "flows": []}


def test_source_is_read_where_a_frame_names_it(page, trace):
    source = page.result("source", file="train.py", line=3, around=1)
    path = str(trace.parent / "train.py")
    lines = ["", "def main():", "    pass"]
    assert source == {"first": 2, "from": "file", "path": path, "changed": False, "lines": lines}
    for other in ("/etc/passwd", "rain.py", "../train.py", "setup.py"):
        assert page.call("source", file=other, line=1)["error"]["code"] == "not_found"


def source_of(path, **members):
    v = Viewer(path)
    s = Socket(v.url)
    reply = s.call("source", **{"file": "train.py", "line": 3, "around": 1, **members})
    s.close()
    v.stop()
    return reply.get("result") or reply["error"]


def test_source_is_found_where_it_was_and_else_as_recorded(tmp_path):
    """source_folders names the folder that was cut off the path; source_lines has the lines, a member a process."""
    here, away = tmp_path / "here", tmp_path / "away"
    here.mkdir()
    away.mkdir()
    document = {
        "source_folders": ["/nowhere/", f"{here}/"],
        "source_lines.7": {"train.py": {"3": "def main():"}, "other.py": {"3": "no"}},
        "source_lines.8": {"train.py": {"2": '# a \u00e9 "comment"'}, "far\\away.py": {"3": "x = 1"}},
        "traceEvents": [*EVENTS, event("python_function", "far\\away.py(3): f", 1, 10, 99, 1)],
    }
    path = away / "trace.json"
    path.write_text(json.dumps(document))
    recorded = {"first": 2, "from": "recording", "path": None, "changed": False}
    assert source_of(path) == {**recorded, "lines": ['# a \u00e9 "comment"', "def main():"]}
    assert source_of(path, file="far\\away.py")["lines"] == [None, "x = 1"]
    assert source_of(path, line=4)["code"] == "not_found"
    (here / "train.py").write_text("import torch\r\n\r\ndef main():\r\n    pass\r\n")
    on_disk = {"first": 2, "from": "file", "path": f"{here}/train.py", "changed": False}
    assert source_of(path) == {**on_disk, "lines": ["", "def main():", "    pass"]}
    (here / "train.py").write_text("import torch\n\ndef main(arguments):\n    pass\n")
    assert source_of(path) == {**recorded, "changed": True, "lines": ['# a \u00e9 "comment"', "def main():"]}


def test_hostile_names_stay_text(page):
    (hit,) = page.result("search", text="<script>")["hits"]
    assert hit["name"] == "<script>alert(1)</script>\u202e"


# ---- the program ---------------------------------------------------------------------


def test_a_trace_that_is_none_fails_in_the_page(tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text("no trace")
    v = Viewer(bad)
    s = Socket(v.url)
    assert s.call("ask", question="overview")["error"]["code"] == "not_a_trace"
    assert s.call("tracks")["error"]["code"] == "not_a_trace"
    assert s.result("state")["traces"][0]["state"] == "failed"
    s.close()
    v.stop()


def test_a_large_folder_of_ranks_is_not_read_whole(tmp_path):
    """Above 16 MB a folder is read rank by rank; its questions are answered, its timeline is refused with the way."""
    note = "x" * 20000
    for rank in range(2):
        events = [event("cpu_op", f"op{i % 5}", rank, 1, 10 * i, 5, note=note) for i in range(450)]
        text = json.dumps({"traceEvents": events, "distributedInfo": {"rank": rank, "world_size": 2}})
        (tmp_path / f"rank{rank}.json").write_text(text)
    v = Viewer(tmp_path, "--slices", "899")
    s = Socket(v.url)
    answer = s.result("ask", question="ops")
    at = [column["name"] for column in answer["columns"]].index("calls")
    assert sum(row[at] for row in answer["rows"]) == 900
    error = s.call("tracks")["error"]
    assert error["code"] == "no_data" and "900 slices" in error["text"] and "one rank" in error["text"]
    s.close()
    v.stop()
    v = Viewer(tmp_path, "--slices", "900")
    s = Socket(v.url)
    assert sum(t["slices"] for t in s.result("tracks")["tracks"]) == 900
    s.close()
    v.stop()


def test_what_is_not_there_is_said_at_once(tmp_path):
    run = subprocess.run([BIN, "view", str(tmp_path / "none")], capture_output=True, text=True, timeout=600)
    assert run.returncode == 4 and "there is no such file" in run.stderr
    assert subprocess.run([BIN, "view"], capture_output=True, timeout=600).returncode == 2
    assert subprocess.run([BIN, "view", "--port", "x", __file__], capture_output=True, timeout=600).returncode == 2


def test_a_port_that_is_taken_is_said(viewer, trace):
    run = subprocess.run(
        [BIN, "view", "--port", str(viewer.parts.port), str(trace)], capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 4 and "--port" in run.stderr


def test_as_text_it_says_how_to_reach_it_and_ends_with_ctrl_c(trace):
    process = subprocess.Popen(
        [BIN, "view", "--no-browser", str(trace)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline().startswith("http://127.0.0.1:")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 0 and "ssh -L" in err
