"""record_function as a decorator: it does what `with` around the whole body of the function would do."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def decorate(annotation: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, labelled. Each call gets a span of its own, so that it may be recursive and run on several
    threads."""
    label, name, text = type(annotation), annotation.name, annotation.args
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def labelled(*args: Any, **kwargs: Any) -> Any:
            with label(name, text):
                return await function(*args, **kwargs)
    elif inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def labelled(*args: Any, **kwargs: Any) -> Any:
            with label(name, text):
                generator = function(*args, **kwargs)
                try:  # there is no `yield from` for these: what is sent and thrown in is passed on by hand
                    item = await generator.__anext__()
                    while True:
                        try:
                            sent = yield item
                        except GeneratorExit:
                            await generator.aclose()
                            raise
                        except BaseException as thrown:
                            item = await generator.athrow(thrown)
                        else:
                            item = await generator.asend(sent)
                except StopAsyncIteration:
                    return
    elif inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def labelled(*args: Any, **kwargs: Any) -> Any:
            with label(name, text):
                return (yield from function(*args, **kwargs))
    else:

        @functools.wraps(function)
        def labelled(*args: Any, **kwargs: Any) -> Any:
            with label(name, text):
                return function(*args, **kwargs)

    return labelled
