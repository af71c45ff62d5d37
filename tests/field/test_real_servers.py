"""uvicorn with FastAPI under load on loopback, Flask, gRPC, Prometheus and OpenTelemetry as installed."""

import concurrent.futures
import threading
import time
import urllib.error
import urllib.request

import pytest
import tachograph.serving as serving


@pytest.fixture
def every():
    serving.requests.clear()
    yield serving.requests
    serving.requests.listeners.clear()
    serving.requests.clear()


@pytest.fixture
def run_uvicorn():
    """run_uvicorn(app) → its address."""
    uvicorn = pytest.importorskip("uvicorn")
    servers = []

    def run(app):
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        servers.append((server, thread))
        end = time.monotonic() + 600
        while not server.started:
            assert time.monotonic() < end
            time.sleep(0.01)
        return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"

    yield run
    for server, thread in servers:
        server.should_exit = True
        thread.join(600)


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=600) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_fastapi_under_load(every, run_uvicorn, tmp_path):
    fastapi = pytest.importorskip("fastapi")
    torch = pytest.importorskip("torch")
    import tachograph as tg

    app = fastapi.FastAPI()
    app.add_middleware(serving.ASGI)
    model = torch.nn.Linear(8, 8)
    serving.watch(model)

    @app.get("/user/{number}")
    def user(number: int):  # in a thread of the server's pool
        with serving.phase("preprocess"):
            batch = torch.ones(2, 8)
        if number == 7:
            time.sleep(0.2)
        return {"sum": model(batch).sum().item()}

    @app.get("/bad")
    async def bad():
        raise fastapi.HTTPException(503)

    url = run_uvicorn(serving.save_requests(app, tmp_path / "requests.jsonl"))
    with tg.flight_recorder(on=["request > 150ms"], folder=tmp_path / "flight", budget="4M") as recorder:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            statuses = list(pool.map(get, [f"{url}/user/{n}" for n in range(200)] + [f"{url}/bad"] * 5))
        end = time.monotonic() + 600
        while not recorder.dumps and time.monotonic() < end:
            time.sleep(0.05)
    assert statuses == [200] * 200 + [503] * 5
    assert every.count == 205 and every.failed == 5 and every.active == 0 and every.most_at_once >= 2
    assert {r.name for r in every.kept} == {"GET /user/{number}", "GET /bad"}
    good = [r for r in every.kept if r.ok]
    assert all({"preprocess", "forward"} <= set(r.phases) and r.batch == 2 for r in good)
    slowest = max(every.kept, key=lambda r: r.dur_ns)
    assert slowest.dur_ns >= 200_000_000 and slowest.parts()["other"] >= 200_000_000
    assert "p99" in every.report()
    trace = tg.open(recorder.dumps[0])
    assert "aten::linear" in {row["name"] for row in trace.ask("ops")}
    assert max(row["total_ns"] for row in trace.ask("steps")) >= 200_000_000
    found = serving.replay_http(tmp_path / "requests.jsonl", url, concurrency=4)
    assert len(found.latencies_ms) == 200 and found.failed == 5


def test_flask(every):
    flask = pytest.importorskip("flask")
    app = flask.Flask(__name__)
    app.wsgi_app = serving.WSGI(app.wsgi_app)

    @app.get("/a")
    def a():
        with serving.phase("forward"):
            return "x"

    client = app.test_client()
    assert client.get("/a", buffered=True).status_code == 200
    assert client.get("/none", buffered=True).status_code == 404
    assert [(r.name, r.ok, list(r.phases)) for r in every.kept] == [
        ("GET /a", True, ["forward"]),
        ("GET /none", True, []),
    ]


def test_grpc(every):
    grpc = pytest.importorskip("grpc")

    def answer(request, context):
        with serving.phase("forward"):
            if request == b"bad":
                context.abort(grpc.StatusCode.INTERNAL, "bad")
            return request * 2

    def stream(request, context):
        yield request
        yield request

    methods = {
        "One": grpc.unary_unary_rpc_method_handler(answer),
        "Many": grpc.unary_stream_rpc_method_handler(stream),
    }
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), interceptors=[serving.grpc_interceptor()])
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("S", methods)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        assert channel.unary_unary("/S/One")(b"a") == b"aa"
        assert list(channel.unary_stream("/S/Many")(b"b")) == [b"b", b"b"]
        with pytest.raises(grpc.RpcError):
            channel.unary_unary("/S/One")(b"bad")
    server.stop(None).wait()
    assert sorted((r.name, r.ok) for r in every.kept) == [("/S/Many", True), ("/S/One", False), ("/S/One", True)]


def test_prometheus(every):
    client = pytest.importorskip("prometheus_client")
    registry = client.CollectorRegistry()
    step_seconds = serving.prometheus(registry)
    for ok in (True, True, False):
        with every.serve("a") as opened:
            opened.ok = ok
    assert "step_seconds" not in client.generate_latest(registry).decode()  # no step, no figure of steps
    step_seconds(0.02)
    text = client.generate_latest(registry).decode()
    assert 'tachograph_request_seconds_count{name="a",ok="true"} 2.0' in text
    assert 'tachograph_request_seconds_count{name="a",ok="false"} 1.0' in text
    assert "tachograph_step_seconds_count 1.0" in text and "tachograph_requests_active 0.0" in text
    assert 'tachograph_step_seconds_bucket{le="0.025"} 1.0' in text


def test_opentelemetry(every):
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), trace.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    serving.opentelemetry(provider.get_tracer("test"))
    with every.serve("a", queue_ns=5_000_000) as opened:
        opened.batch = 3
        with serving.phase("forward"):
            time.sleep(0.002)
    (span,) = exporter.get_finished_spans()
    (ended,) = every.kept
    assert span.name == "a" and span.end_time - span.start_time == ended.dur_ns
    assert span.attributes["tachograph.batch"] == 3 and span.attributes["tachograph.queue_ms"] == 5
    assert span.attributes["tachograph.forward_ms"] >= 2
