"""A WebSocket client of the few lines that tests need: text messages out, whole messages in."""

import base64
import json
import os
import socket
import struct
from urllib.parse import urlsplit


class Closed(Exception):
    """The server ended the connection; code: of its close message, or None."""

    def __init__(self, code=None):
        super().__init__(code)
        self.code = code


class Refused(Exception):
    """The server did not take the connection; status: of HTTP."""

    def __init__(self, status):
        super().__init__(status)
        self.status = status


class Socket:
    def __init__(self, url, path="ws", host=None, origin=None, timeout=600):
        parts = urlsplit(url)
        self.sock = socket.create_connection((parts.hostname, parts.port), timeout)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {parts.path}{path} HTTP/1.1",
            f"Host: {host or parts.netloc}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
        ] + ([f"Origin: {origin}"] if origin else [])
        self.sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            more = self.sock.recv(1)
            if not more:
                raise Refused(None)
            head += more
        status = int(head.split()[1])
        if status != 101:
            raise Refused(status)

    def send_bytes(self, data, first=0x81):
        mask, n = os.urandom(4), len(data)
        if n < 126:
            head = struct.pack(">BB", first, 0x80 | n)
        elif n < 65536:
            head = struct.pack(">BBH", first, 0x80 | 126, n)
        else:
            head = struct.pack(">BBQ", first, 0x80 | 127, n)
        repeated = (mask * (n // 4 + 1))[:n]
        masked = (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(n, "big")
        self.sock.sendall(head + mask + masked)

    def _take(self, n):
        parts = []
        while n:
            data = self.sock.recv(n)
            if not data:
                raise Closed
            parts.append(data)
            n -= len(data)
        return b"".join(parts)

    def receive(self):
        """bytes of a binary message, the object of a text one."""
        message, kind = b"", None
        while True:
            first, length = self._take(2)
            if length == 126:
                (length,) = struct.unpack(">H", self._take(2))
            elif length == 127:
                (length,) = struct.unpack(">Q", self._take(8))
            payload = self._take(length)
            if first & 15 == 8:
                raise Closed(struct.unpack(">H", payload[:2])[0] if len(payload) >= 2 else None)
            message += payload
            kind = first & 15 or kind
            if first & 128:
                return message if kind == 2 else json.loads(message)

    def send(self, **members):
        self.send_bytes(json.dumps(members).encode())

    def call(self, call, number=1, **members):
        """The reply to one call, whole; events and replies to others are passed over."""
        self.send(id=number, call=call, **members)
        while True:
            reply = self.receive()
            if isinstance(reply, bytes):
                if struct.unpack_from("<I", reply)[0] == number:
                    return reply
            elif reply.get("id") == number:
                return reply

    def result(self, call, **members):
        reply = self.call(call, **members)
        assert "error" not in reply, reply
        return reply["result"]

    def close(self):
        self.sock.close()
