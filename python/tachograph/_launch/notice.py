"""Calls us when a library reads or writes an attribute of its objects. No frame of ours is on the stack while the
library goes on, and the value stays where it was, in the object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def notice(
    owner: type,
    name: str,
    read: Callable[[Any], None] | None = None,
    write: Callable[[Any, Any], None] | None = None,
) -> Callable[[], None] | None:
    """read(instance) and write(instance, value) are called for this attribute from now on. → what ends that; None
    where the class has an attribute of that name itself."""
    if name in owner.__dict__:
        return None

    def getter(instance: Any) -> Any:
        try:
            value = instance.__dict__[name]
        except KeyError:
            raise AttributeError(name) from None
        if read is not None:
            read(instance)
        return value

    def setter(instance: Any, value: Any) -> None:
        instance.__dict__[name] = value
        if write is not None:
            write(instance, value)

    setattr(owner, name, property(getter, setter))
    return lambda: delattr(owner, name)
