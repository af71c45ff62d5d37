"""Requests handed on to Prometheus and OpenTelemetry, through their own packages, where those are installed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .requests import Request, Requests, requests as every_request

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def prometheus(
    registry: Any = None, requests: Requests | None = None, buckets: tuple[float, ...] = BUCKETS_S
) -> Callable[[float], None]:
    """From now on requests go into histograms of prometheus_client: tachograph_request_seconds by name and outcome,
    tachograph_request_part_seconds by part, and the gauge tachograph_requests_active. Returns a function that takes the
    seconds of a training step into tachograph_step_seconds, which is there from the first step on. registry:
    prometheus_client's own by default, which start_http_server(port) and make_asgi_app() serve."""
    import prometheus_client as client

    measured = requests or every_request
    where = {"registry": registry or client.REGISTRY}
    seconds = client.Histogram(
        "tachograph_request_seconds", "Length of requests", ["name", "ok"], buckets=buckets, **where
    )
    parts = client.Histogram(
        "tachograph_request_part_seconds", "Where the time of requests went", ["part"], buckets=buckets, **where
    )
    active = client.Gauge("tachograph_requests_active", "Requests that are being served", **where)
    active.set_function(lambda: measured.active)

    def listen(request: Request) -> None:
        seconds.labels(request.name, str(request.ok).lower()).observe(request.dur_ns / 1e9)
        for part, ns in request.parts().items():
            parts.labels(part).observe(ns / 1e9)

    @functools.cache
    def steps() -> Any:
        return client.Histogram("tachograph_step_seconds", "Length of steps", buckets=buckets, **where)

    measured.listeners.append(listen)
    return lambda seconds: steps().observe(seconds)


def opentelemetry(tracer: Any = None, requests: Requests | None = None) -> None:
    """From now on each request is a span, and its phases are events on it, by OpenTelemetry's API; the program's own
    SDK exports them."""
    from opentelemetry import trace

    own = tracer or trace.get_tracer("tachograph")

    def listen(request: Request) -> None:
        attributes: dict[str, Any] = {
            f"tachograph.{part.split(' ')[0].replace('(', '')}_ms": ns / 1e6 for part, ns in request.parts().items()
        }
        attributes["tachograph.gc_ms"] = request.gc_ns / 1e6
        attributes["tachograph.others"] = request.others
        if request.batch is not None:
            attributes["tachograph.batch"] = request.batch
        span = own.start_span(request.name, start_time=request.began_ns - request.queue_ns, attributes=attributes)
        if not request.ok:
            span.set_status(trace.StatusCode.ERROR)
        span.end(request.began_ns - request.queue_ns + request.dur_ns)

    (requests or every_request).listeners.append(listen)
