"""Recorded requests sent again, so many at once: `tachograph.serving.replay(predict, requests, concurrency=8)`."""

from __future__ import annotations

import base64
import http.client
import json
import os
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from .._measure.series import percentile

MOST_BODY = 1 << 20
_SENT = ("content-type", "accept", "content-encoding")  # no cookies, no credentials: the file may be committed


class Replay(NamedTuple):
    """What a replay found. latencies_ms: of the requests that were answered, in the order they were sent."""

    latencies_ms: list[float]
    failed: int
    seconds: float
    concurrency: int
    first_error: str

    def percentile(self, percent: float) -> float:
        return percentile(self.latencies_ms, percent)

    def __str__(self) -> str:
        rate = (len(self.latencies_ms) + self.failed) / max(self.seconds, 1e-9)
        error = f"; the first failure: {self.first_error}" if self.failed else ""
        if not self.latencies_ms:
            return f"no request was answered, {self.failed} failed{error}"
        return (
            f"{len(self.latencies_ms)} requests at {self.concurrency} at once in {self.seconds:.3g} s ({rate:.1f} a second): "
            f"p50 {self.percentile(50):.3g} ms, p95 {self.percentile(95):.3g} ms, p99 {self.percentile(99):.3g} ms, "
            f"{self.failed} failed{error}"
        )


def replay(call: Callable[[Any], Any], requests: Iterable[Any], *, concurrency: int = 1, repeat: int = 1) -> Replay:
    """call(request) for each request, `concurrency` of them at once, all `repeat` times. As fast as answers come."""
    if concurrency < 1 or repeat < 1:
        raise ValueError(f"concurrency={concurrency}, repeat={repeat}: both are at least 1")
    todo = list(requests) * repeat
    if not todo:
        raise ValueError("there is no request to replay")
    lock, place = threading.Lock(), iter(range(len(todo)))
    times: list[float | None] = [None] * len(todo)
    errors: list[str] = []

    def work() -> None:
        while True:
            with lock:
                at = next(place, None)
            if at is None:
                return
            began = time.perf_counter_ns()
            try:
                call(todo[at])
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")
            else:
                times[at] = (time.perf_counter_ns() - began) / 1e6

    threads = [threading.Thread(target=work, name=f"replay {n}") for n in range(min(concurrency, len(todo)))]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    return Replay([t for t in times if t is not None], len(errors), seconds, concurrency, errors[0] if errors else "")


def replay_http(
    path: str | os.PathLike[str], url: str, *, concurrency: int = 1, repeat: int = 1, timeout: float = 60.0
) -> Replay:
    """Send the requests of a file that save_requests() wrote to the server at `url`. A status of 400 or more is a
    failure."""
    where = urllib.parse.urlsplit(url)
    if where.scheme not in ("http", "https") or not where.hostname:
        raise ValueError(f"url={url!r}: it begins with http:// or https:// and names a host")
    kind = http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection
    local = threading.local()  # one connection a thread, kept open

    def send(request: dict[str, Any]) -> None:
        connection = getattr(local, "connection", None)
        if connection is None:
            connection = local.connection = kind(where.hostname or "", where.port, timeout=timeout)
        try:
            connection.request(request["method"], request["target"], request["body"], request["headers"])
            answer = connection.getresponse()
            answer.read()
        except Exception:
            local.connection = None
            connection.close()
            raise
        if answer.status >= 400:
            raise RuntimeError(f"{request['method']} {request['target']}: status {answer.status}")

    return replay(send, read_requests(path), concurrency=concurrency, repeat=repeat)


def read_requests(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The requests of a file, one JSON object a line: method, target, headers, body (base64). ValueError names the
    line."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
                yield {
                    "method": str(entry["method"]),
                    "target": str(entry["target"]),
                    "headers": {str(k): str(v) for k, v in entry.get("headers", {}).items()},
                    "body": base64.b64decode(entry.get("body", ""), validate=True),
                }
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(
                    f"{os.fspath(path)}:{number}: no recorded request ({type(error).__name__}: {error})"
                ) from None


class save_requests:
    """Around an ASGI application: its first `most` HTTP requests go into a file for replay_http(), with the headers
    that say what the body is and without cookies or credentials. Bodies over 1 MB are left out, with their request."""

    def __init__(self, app: Callable[..., Any], path: str | os.PathLike[str], most: int = 1000) -> None:
        self.app, self._left = app, most
        self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115  lives as long as the application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or self._left <= 0:
            await self.app(scope, receive, send)
            return
        body = bytearray()

        async def noting() -> Any:
            message = await receive()
            if message["type"] == "http.request" and len(body) <= MOST_BODY:
                body.extend(message.get("body", b""))
            return message

        await self.app(scope, noting, send)
        if len(body) <= MOST_BODY and self._left > 0:
            self._left -= 1
            self._write(scope, bytes(body))

    def _write(self, scope: Any, body: bytes) -> None:
        query = scope.get("query_string", b"").decode("latin-1")
        target = scope.get("raw_path", scope["path"].encode()).decode("latin-1") + (f"?{query}" if query else "")
        headers = {
            k.decode("latin-1"): v.decode("latin-1")
            for k, v in scope.get("headers", ())
            if k.decode("latin-1") in _SENT
        }
        entry = {
            "method": scope["method"],
            "target": target,
            "headers": headers,
            "body": base64.b64encode(body).decode(),
        }
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()
