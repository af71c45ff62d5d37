"""Middleware of a line for the servers that Python programs run in."""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from .requests import Requests, current, phase, requests as every_request

QUEUE_HEADER = "x-request-start"  # "t=1712345678.123", in s, ms or us, as nginx and Heroku write it


def queue_ns(text: str) -> int:
    """How long a request waited in front of this process; 0 for what says nothing, or another clock."""
    try:
        value = float(text.strip().removeprefix("t="))
    except ValueError:
        return 0
    for factor in (1e9, 1e6, 1e3):  # of s, ms, us to ns
        waited = time.time_ns() - value * factor
        if 0 <= waited < 3600e9:
            return int(waited)
    return 0


class ASGI:
    """Around an ASGI application: FastAPI, Starlette, Quart, Django. A request ends with its last byte."""

    def __init__(self, app: Callable[..., Awaitable[Any]], requests: Requests | None = None) -> None:
        self.app, self.requests = app, requests or every_request

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":  # lifespan and websockets are no requests
            await self.app(scope, receive, send)
            return
        queued = next((v for k, v in scope.get("headers", ()) if k == QUEUE_HEADER.encode()), b"")
        with self.requests.serve(
            f"{scope['method']} {scope['path']}", queue_ns(queued.decode("latin-1")), True
        ) as opened:

            async def noting(message: Any) -> None:
                if message["type"] == "http.response.start":
                    opened.ok = message["status"] < 500
                await send(message)

            await self.app(scope, receive, noting)
            route = scope.get("route")  # the pattern: /user/{id} and not each of its values
            opened.name = f"{scope['method']} {getattr(route, 'path', scope['path'])}"


class WSGI:
    """Around a WSGI application: Flask, Django, Bottle. A request ends when its body was read, or closed."""

    def __init__(self, app: Callable[..., Iterable[bytes]], requests: Requests | None = None) -> None:
        self.app, self.requests = app, requests or every_request

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        queued = queue_ns(environ.get("HTTP_X_REQUEST_START", ""))
        served = self.requests.serve(f"{environ['REQUEST_METHOD']} {environ.get('PATH_INFO', '/')}", queued)
        opened = served.__enter__()

        def noting(status: str, headers: Any, *rest: Any) -> Any:
            opened.ok = not status.startswith("5")
            return start_response(status, headers, *rest)

        try:
            body = self.app(environ, noting)
        except BaseException as error:
            served.__exit__(type(error), error, error.__traceback__)
            raise
        return _Body(body, served)


class _Body:
    """The body of a response, which ends its request once."""

    def __init__(self, body: Iterable[bytes], served: Any) -> None:
        self._body, self._served = body, served

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._body
        except GeneratorExit:  # the client has gone; that is no failure of the application
            self._end(None)
            raise
        except BaseException as error:
            self._end(error)
            raise
        self._end(None)

    def close(self) -> None:
        close = getattr(self._body, "close", None)
        try:
            if close is not None:
                close()
        finally:
            self._end(None)

    def _end(self, error: BaseException | None) -> None:
        served, self._served = self._served, None
        if served is None:
            return
        if error is None:
            served.__exit__(None, None, None)
            return
        try:
            served.__exit__(type(error), error, error.__traceback__)
        except BaseException as same:
            if same is not error:
                raise


def grpc_interceptor(requests: Requests | None = None) -> Any:
    """For grpc.server(…, interceptors=[…]): calls with one request and one answer, or a stream of answers. Needs
    grpcio."""
    import grpc

    measured = requests or every_request

    class Interceptor(grpc.ServerInterceptor):  # type: ignore[misc]
        def intercept_service(self, continuation: Any, details: Any) -> Any:
            handler = continuation(details)
            if handler is None or handler.request_streaming:  # a conversation is no request
                return handler
            name = details.method
            if handler.response_streaming:

                def streaming(request: Any, context: Any) -> Iterator[Any]:
                    with measured.serve(name):
                        yield from handler.unary_stream(request, context)

                return grpc.unary_stream_rpc_method_handler(
                    streaming, handler.request_deserializer, handler.response_serializer
                )

            def unary(request: Any, context: Any) -> Any:
                with measured.serve(name):
                    return handler.unary_unary(request, context)

            return grpc.unary_unary_rpc_method_handler(unary, handler.request_deserializer, handler.response_serializer)

    return Interceptor()


def watch(model: Any) -> Callable[[], None]:
    """The forward of this module is the phase "forward" of the request it is called for, and the first dimension of its
    first tensor is the request's batch. Called without a request around it, each call is one. Returns what takes the
    hooks off."""
    local = threading.local()  # calls of several threads do not mix

    def before(module: Any, args: Any, kwargs: Any) -> None:
        opened = current()
        served = None
        if opened is None:
            served = every_request.serve(f"{type(module).__name__}.forward")
            opened = served.__enter__()
        tensor = next((value for value in (*args, *kwargs.values()) if getattr(value, "ndim", 0)), None)
        if tensor is not None and opened.batch is None:
            opened.batch = int(tensor.shape[0])
        part = phase("forward")
        part.__enter__()
        local.__dict__.setdefault("running", []).append((part, served))

    def after(_module: Any, _args: Any, _kwargs: Any, _output: Any) -> None:
        part, served = local.running.pop()
        part.__exit__(None, None, None)
        if served is not None:
            served.__exit__(None, None, None)

    hooks = [
        model.register_forward_pre_hook(before, with_kwargs=True),
        model.register_forward_hook(after, with_kwargs=True, always_call=True),
    ]

    def remove() -> None:
        for hook in hooks:
            hook.remove()

    return remove


def TritonModel(cls: type) -> type:
    """A decorator for the class TritonPythonModel of Triton's Python backend: each call of execute(requests) is one
    request and its batch is the number of requests that Triton put together."""
    execute = cls.execute  # type: ignore[attr-defined]
    if inspect.iscoroutinefunction(execute):

        @functools.wraps(execute)
        async def execute_async(self: Any, requests: Any) -> Any:
            with every_request.serve(f"{cls.__name__}.execute", async_=True) as opened:
                opened.batch = len(requests)
                return await execute(self, requests)

        cls.execute = execute_async  # type: ignore[attr-defined]
        return cls

    @functools.wraps(execute)
    def execute_sync(self: Any, requests: Any) -> Any:
        with every_request.serve(f"{cls.__name__}.execute") as opened:
            opened.batch = len(requests)
            return execute(self, requests)

    cls.execute = execute_sync  # type: ignore[attr-defined]
    return cls
