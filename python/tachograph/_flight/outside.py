"""Requests to a flight recorder from outside of the program's own code: a signal, a file, HTTP on loopback; and
exceptions that were not caught. Each is installed and taken out again whole."""

from __future__ import annotations

import contextlib
import hmac
import http.server
import json
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

MOST_BODY = 1000
LOCAL = ("127.0.0.1", "localhost")
SECONDS_TO_TALK = 2.0  # for a client that sends nothing


class Signal:
    """SIGUSR2; a handler of the program is called as well."""

    def __init__(self, ask: Callable[[str, str], Any]) -> None:
        self._ask = ask
        self._before = signal.signal(signal.SIGUSR2, self._handle)

    def _handle(self, number: int, frame: Any) -> None:
        self._ask("signal", f"SIGUSR2 was sent to process {os.getpid()}")
        if callable(self._before):
            self._before(number, frame)

    def close(self) -> None:
        if signal.getsignal(signal.SIGUSR2) == self._handle and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGUSR2, self._before if self._before is not None else signal.SIG_DFL)


class File:
    """A file `dump` in the folder; its text is the reason. Taken away when it was read. poll() looks."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "dump")

    def poll(self) -> str:
        """The reason, empty when there is no request."""
        try:
            with open(self.path, encoding="utf-8", errors="replace") as file:
                text = file.read(MOST_BODY).strip()
            os.unlink(self.path)
        except OSError:
            return ""
        return f"{self.path} was written" + (f": {text}" if text else "")


class Exceptions:
    """What ends a thread, or the program. The hooks that were there are called after ours."""

    def __init__(self, ask: Callable[[BaseException], Any]) -> None:
        self._ask = ask
        self._sys, self._threading = sys.excepthook, threading.excepthook
        sys.excepthook, threading.excepthook = self._main, self._thread

    def _main(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, Exception):  # no one needs the ring of a program that was interrupted by hand
            self._ask(error)
        self._sys(kind, error, trace)

    def _thread(self, args: Any) -> None:
        if isinstance(args.exc_value, Exception):
            self._ask(args.exc_value)
        self._threading(args)

    def close(self) -> None:
        if sys.excepthook == self._main:
            sys.excepthook = self._sys
        if threading.excepthook == self._thread:
            threading.excepthook = self._threading


class Http:
    """POST /dump on 127.0.0.1, with the token in the header Authorization: Bearer …; the body is the reason. Address
    and token stand in a file that only this user may read. One request at a time."""

    def __init__(self, ask: Callable[[str, str], str], path: str) -> None:
        self.path, token = path, secrets.token_urlsafe(24)
        self._server = http.server.HTTPServer(("127.0.0.1", 0), _handler(ask, token))
        self.port = self._server.server_address[1]
        with contextlib.suppress(FileNotFoundError):  # one that was there may be another user's, open or a link
            os.unlink(path)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
            json.dump({"url": f"http://127.0.0.1:{self.port}/dump", "token": token}, file)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.5}, name="tachograph-http", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        with contextlib.suppress(OSError):
            os.unlink(self.path)


def _handler(ask: Callable[[str, str], str], token: str) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = SECONDS_TO_TALK

        def do_POST(self) -> None:
            given = self.headers.get("Authorization", "")
            host = self.headers.get("Host", "").rsplit(":", 1)[0]
            length = self.headers.get("Content-Length", "0")
            if host not in LOCAL:  # a page in a browser that was given another name for this address
                return self._answer(403, "the header Host names another machine")
            if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
                return self._answer(401, "the token is missing or wrong; it stands in the file beside the ring")
            if self.path != "/dump":
                return self._answer(404, "there is POST /dump and nothing else")
            if not length.isdigit() or int(length) > MOST_BODY:
                return self._answer(413, f"the reason has at most {MOST_BODY} bytes")
            text = self.rfile.read(int(length)).decode("utf-8", "replace").strip()
            refused = ask("http", "asked for over HTTP" + (f": {text}" if text else ""))
            return self._answer(429 if refused else 202, refused or "the ring is being written")

        def _answer(self, status: int, text: str) -> None:
            body = json.dumps({"tachograph": text}).encode() + b"\n"
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:  # standard error is the program's
            pass

    return Handler
