"""Requests as steps: percentiles, parts, concurrency, idle time, middleware, replay."""

import asyncio
import gc
import json
import threading
import time

import pytest
import tachograph.serving as serving
from tachograph._serving import middleware, requests as measuring


@pytest.fixture
def requests():
    """A collector of one's own, as `serving.requests` is of the process."""
    measured = serving.Requests()
    yield measured
    if measured._collected in gc.callbacks:
        gc.callbacks.remove(measured._collected)


@pytest.fixture
def every():
    serving.requests.clear()
    yield serving.requests
    serving.requests.listeners.clear()
    serving.requests.clear()


def a_request(ms, **more):
    values = {
        "name": "r", "began_ns": 0, "dur_ns": int(ms * 1e6), "queue_ns": 0, "phases": {}, "gc_ns": 0, "cpu_ns": None,
        "core_wait_ns": None, "batch": None, "others": 0, "ok": True,
    }  # fmt: skip
    return serving.Request(**{**values, **more})


def test_percentiles_and_the_slow_ones(requests):
    requests._kept.extend(a_request(ms) for ms in range(1, 101))  # 1 to 100 ms
    assert requests.percentiles() == pytest.approx({"p50": 50.5, "p95": 95.05, "p99": 99.01})
    assert [r.dur_ns / 1e6 for r in requests.slow()] == [100, 99, 98, 97, 96]


def test_parts_of_a_request_add_up():
    parts = a_request(10, queue_ns=1_000_000, phases={"forward": 6_000_000}).parts()
    assert parts == {"queue": 1_000_000, "forward": 6_000_000, "other": 3_000_000}
    parts = a_request(10, cpu_ns=4_000_000, core_wait_ns=1_000_000).parts()
    assert parts == {"queue": 0, "on a core": 4_000_000, "no core": 1_000_000, "waiting (GIL, locks, I/O)": 5_000_000}


def test_the_report_says_what_slow_ones_did_more(requests):
    for _ in range(38):
        requests._kept.append(a_request(10, phases={"forward": 8_000_000}, batch=1))
    for _ in range(2):
        requests._kept.append(a_request(110, phases={"forward": 8_000_000, "preprocess": 100_000_000}, batch=5))
    requests.count, requests._first_ns, requests._last_end_ns = 40, 1, 1_000_000_001
    requests.served_ns, requests.idle_ns, requests.idle_times = 2_000_000_000, 250_000_000, 3
    lines = requests.report().splitlines()
    assert lines[0] == "requests  40 in 1 s, 0 failed, p50 10 ms, p95 15 ms, p99 110 ms"
    assert lines[1:3] == ["at once   2.00 on average, 0 at most", "idle      0.25 s between requests (25.0 %), 3 times"]
    assert lines[5].split() == ["preprocess", "0.000", "100.000", "+100.000"]
    assert lines[-1].split() == ["batch", "1.000", "5.000", "+4.000"]


def test_concurrency_idle_time_and_failures(requests):
    inside, leave = threading.Barrier(3), threading.Event()

    def serve():
        with requests.serve("a"):
            inside.wait()
            leave.wait()

    threads = [threading.Thread(target=serve) for _ in range(2)]
    for thread in threads:
        thread.start()
    inside.wait()
    assert requests.active == 2 and requests.idle_times == 0
    leave.set()
    for thread in threads:
        thread.join()
    time.sleep(0.05)
    with pytest.raises(ValueError), requests.serve("b"):
        raise ValueError
    assert requests.most_at_once == 2 and requests.active == 0 and requests.count == 3 and requests.failed == 1
    assert requests.idle_times == 1 and requests.idle_ns >= 50_000_000
    assert sorted(r.others for r in requests.kept) == [0, 0, 1]
    assert [r.ok for r in requests.kept] == [True, True, False]


def test_the_garbage_collector_is_seen_in_a_request(requests):
    with requests.serve("a"):
        gc.collect()
    (ended,) = requests.kept
    assert 0 < ended.gc_ns <= ended.dur_ns and ended.cpu_ns > 0


def test_decorated_calls_have_phases_also_as_coroutines(every):
    @serving.request
    def plain(n):
        with serving.phase("preprocess"):
            time.sleep(0.002)
        return n + 1

    @serving.request
    async def coroutine(n):
        with serving.phase("forward"):
            await asyncio.sleep(0.002)
        return n + 2

    async def both():
        return await asyncio.gather(coroutine(1), coroutine(2))

    assert plain(1) == 2 and asyncio.run(both()) == [3, 4]
    first, second, third = every.kept
    assert first.name.endswith("plain") and first.phases["preprocess"] >= 2_000_000 and first.cpu_ns is not None
    for ended in (second, third):
        assert ended.name.endswith("coroutine") and list(ended.phases) == ["forward"] and ended.cpu_ns is None
    assert every.most_at_once == 2


# ---- middleware ----------------------------------------------------------------------------------------------


def call_asgi(app, path="/a", headers=(), body=b"", method="GET"):
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": list(headers), "query_string": b"q=1"}
    asyncio.run(app(scope, receive, send))
    return sent


async def answer(scope, receive, send):
    await receive()
    status = 500 if scope["path"] == "/bad" else 200
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


def test_asgi_requests_are_measured_with_their_queue(requests):
    app = serving.ASGI(answer, requests)
    since = f"t={time.time() - 0.25:.6f}".encode()
    assert [m["type"] for m in call_asgi(app, headers=[(b"x-request-start", since)])][-1] == "http.response.body"
    call_asgi(app, "/bad")
    good, bad = requests.kept
    assert (good.name, good.ok, bad.name, bad.ok) == ("GET /a", True, "GET /bad", False)
    assert 250_000_000 <= good.queue_ns <= good.dur_ns < 60e9 and bad.queue_ns == 0


@pytest.mark.parametrize("text", ["", "soon", "t=", "1e400", "nan", "-5", "9e9"])
def test_a_queue_header_that_says_nothing_counts_as_none(text):
    assert middleware.queue_ns(text) == 0


def test_queue_headers_come_in_three_units():
    for factor in (1, 1e3, 1e6):
        assert 1e9 <= middleware.queue_ns(f"t={(time.time() - 1) * factor:.6f}") < 60e9


def test_wsgi_requests_end_with_their_body_or_when_it_is_closed(requests):
    closed = []

    class Body:
        def __iter__(self):
            yield b"a"
            yield b"b"

        def close(self):
            closed.append(1)

    def application(environ, start_response):
        if environ["PATH_INFO"] == "/raise":
            raise KeyError("x")
        start_response("503 no" if environ["PATH_INFO"] == "/bad" else "200 OK", [])
        return Body()

    app = serving.WSGI(application, requests)

    def call(path):
        return app({"REQUEST_METHOD": "GET", "PATH_INFO": path}, lambda *_: None)

    body = call("/whole")
    assert requests.active == 1 and list(body) == [b"a", b"b"] and requests.active == 0
    body.close()
    body = call("/bad")
    body.close()  # by a server that lost its client
    begun = iter(call("/left"))
    next(begun)
    begun.close()
    with pytest.raises(KeyError):
        call("/raise")
    assert [(r.name, r.ok) for r in requests.kept] == [
        ("GET /whole", True),
        ("GET /bad", False),
        ("GET /left", True),
        ("GET /raise", False),
    ]
    assert closed == [1, 1] and requests.active == 0


def test_tritons_execute_is_a_request_of_its_batch(every):
    @serving.TritonModel
    class TritonPythonModel:  # as the stub of Triton's module has it
        def execute(self, requests):
            return [r * 2 for r in requests]

    assert TritonPythonModel().execute([1, 2, 3]) == [2, 4, 6]
    assert every.kept[0].batch == 3 and every.kept[0].name == "TritonPythonModel.execute"


def test_calls_of_a_model_are_the_forward_of_their_request(every):
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(4, 2)
    remove = serving.watch(model)
    with every.serve("a"):
        model(torch.ones(3, 4))
        model(input=torch.ones(2, 4))
    model(torch.ones(5, 4))
    with pytest.raises(RuntimeError):
        model(torch.ones(5, 3))
    remove()
    model(torch.ones(5, 4))
    assert [(r.name, r.batch, "forward" in r.phases) for r in every.kept] == [
        ("a", 3, True), ("Linear.forward", 5, True), ("Linear.forward", 5, True),
    ]  # fmt: skip
    assert every.active == 0


def test_in_a_recording_requests_of_all_threads_are_steps(every, tmp_path):
    torch = pytest.importorskip("torch")
    import tachograph as tg

    @serving.request
    def predict(n):
        with serving.phase("forward"):
            return torch.ones(n).sum()

    with tg.profile(preset="lean") as prof:
        serving.replay(predict, [2, 3, 4, 5], concurrency=2)
    steps = prof.trace.ask("steps").to_dicts()
    assert len(steps) == 4 and {row["name"].split("#")[0] for row in steps} == {"ProfilerStep"}
    assert len({row["step"] for row in steps}) == 4
    calls = {row["name"]: row["calls"] for row in prof.trace.ask("annotations")}
    assert calls["forward"] == 4 and calls[predict.__qualname__] == 4


# ---- replay --------------------------------------------------------------------------------------------------


def test_replay_keeps_so_many_at_once_and_counts_failures():
    at_once, most, lock = [0], [0], threading.Lock()
    three = threading.Barrier(3, timeout=600)  # the twelve calls come in threes

    def call(n):
        with lock:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
        three.wait()
        time.sleep(0.005)
        with lock:
            at_once[0] -= 1
        if n == 3:
            raise ValueError("three")

    found = serving.replay(call, range(6), concurrency=3, repeat=2)
    assert most[0] == 3 and len(found.latencies_ms) == 10 and found.failed == 2 and min(found.latencies_ms) >= 5
    assert str(found).startswith("10 requests at 3 at once in ") and str(found).endswith(
        "2 failed; the first failure: ValueError: three"
    )
    with pytest.raises(ValueError, match="no request to replay"):
        serving.replay(call, [])
    with pytest.raises(ValueError, match="at least 1"):
        serving.replay(call, [1], concurrency=0)


def test_saved_requests_are_sent_again_without_credentials(tmp_path):
    import http.server

    path = tmp_path / "requests.jsonl"
    app = serving.save_requests(answer, path, most=2)
    headers = [(b"content-type", b"text/plain"), (b"cookie", b"secret"), (b"authorization", b"secret")]
    for body in (b"\xff\x00a", b"b", b"c"):
        call_asgi(app, "/a", headers, body, "POST")
    assert "secret" not in path.read_text() and len(path.read_text().splitlines()) == 2
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            seen.append((self.path, self.headers["Content-Type"], self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200 if len(seen) < 2 else 500)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found = serving.replay_http(path, f"http://127.0.0.1:{server.server_address[1]}")
        server.shutdown()
    assert seen == [("/a?q=1", "text/plain", b"\xff\x00a"), ("/a?q=1", "text/plain", b"b")]
    assert len(found.latencies_ms) == 1 and found.failed == 1 and "status 500" in found.first_error


def test_the_command_replays_and_says_what_is_wrong(tachograph, tmp_path):
    import http.server
    import sys

    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({"method": "GET", "target": "/a"}) + "\n")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    env = {"TACHOGRAPH_PYTHON": sys.executable}
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        done = tachograph("replay", path, url, "--repeat", "3", env=env)
        assert done.returncode == 0 and done.stdout.startswith("3 requests at 1 at once in "), done
        server.shutdown()
    done = tachograph("replay", path, url, env=env)  # the server is gone
    assert done.returncode == 1 and done.stdout.startswith("no request was answered, 1 failed; the first failure: ")
    assert json.loads(tachograph("replay", path, url, "--json", env=env).stdout)["failed"] == 1
    assert "begins with http" in tachograph("replay", path, "x", env=env).stderr
    done = tachograph("replay", "none", url, env=env)
    assert done.returncode == 4 and "none: No such file" in done.stderr


@pytest.mark.parametrize("line", ["{", "[]", '{"method": "GET"}', '{"method": "GET", "target": "/", "body": "%"}'])
def test_a_file_that_holds_no_requests_is_refused_with_its_line(tmp_path, line):
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({"method": "GET", "target": "/"}) + "\n\n" + line + "\n")
    with pytest.raises(ValueError, match=r"r\.jsonl:3: no recorded request"):
        serving.replay_http(path, "http://127.0.0.1:1")
    with pytest.raises(ValueError, match="begins with http"):
        serving.replay_http(path, "file:///etc/passwd")


def test_nothing_of_the_optional_packages_is_loaded():
    import subprocess
    import sys

    code = "import sys, tachograph.serving, tachograph.trainers; print([m for m in ('torch', 'grpc', 'prometheus_client', 'opentelemetry', 'transformers', 'lightning', 'ignite', 'accelerate') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_listeners_get_each_request(every):
    seen = []
    every.listeners.append(seen.append)
    with every.serve("a") as opened:
        opened.batch = 7
    assert seen == every.kept and seen[0].batch == 7 and measuring.current() is None
