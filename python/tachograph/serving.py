"""Requests as steps: how long they take, what the slow ones did, how many at once, and how long a server was idle.

    app = tachograph.serving.ASGI(app)                       # Starlette, FastAPI: app.add_middleware(serving.ASGI)
    app.wsgi_app = tachograph.serving.WSGI(app.wsgi_app)     # Flask
    server = grpc.server(pool, interceptors=[tachograph.serving.grpc_interceptor()])

    @tachograph.serving.request                              # any call, also a coroutine
    def predict(batch):
        with tachograph.serving.phase("preprocess"): …

    print(tachograph.serving.report())

Nothing else is needed; under tachograph.profile, `tachograph run` and flight_recorder each request is a step of the
recording. prometheus() and opentelemetry() pass requests on, where these packages are installed."""

from __future__ import annotations

from ._serving.metrics import opentelemetry, prometheus
from ._serving.middleware import ASGI, WSGI, TritonModel, grpc_interceptor, watch
from ._serving.replay import Replay, replay, replay_http, save_requests
from ._serving.requests import Request, Requests, phase, report, request, requests

__all__ = [
    "ASGI",
    "Replay",
    "Request",
    "Requests",
    "TritonModel",
    "WSGI",
    "grpc_interceptor",
    "opentelemetry",
    "phase",
    "prometheus",
    "replay",
    "replay_http",
    "report",
    "request",
    "requests",
    "save_requests",
    "watch",
]
