"""modules(model): a label around the forward call of each submodule, for as long as a with-block lasts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from .annotate import record_function


class modules:
    """`with tachograph.modules(model): …` labels every leaf module `module_<path>`; leaves=False: every module. Only
    hooks are added, and taken away at the end: parameters, state_dict() keys and the modules themselves stay as they
    are.

    For the module path of each operator without labels: profile(with_modules=True)."""

    def __init__(self, model: Any, leaves: bool = True) -> None:
        self._model, self._leaves = model, leaves
        self._hooks: list[Any] = []
        self._open = threading.local()  # labels begun, innermost last: a model may run on several threads

    def _chosen(self) -> Iterator[tuple[str, Any]]:
        for path, module in self._model.named_modules():
            if not (self._leaves and next(module.children(), None) is not None):
                yield path or type(module).__name__, module

    def __enter__(self) -> modules:
        for path, module in self._chosen():
            self._hooks.append(module.register_forward_pre_hook(self._begin(f"module_{path}"), prepend=True))
            self._hooks.append(module.register_forward_hook(self._end, always_call=True))
        return self

    def __exit__(self, *_: Any) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def _begin(self, name: str) -> Any:
        def begin(module: Any, inputs: Any) -> None:
            label = record_function(name)
            label.__enter__()
            vars(self._open).setdefault("labels", []).append(label)

        return begin

    def _end(self, module: Any, inputs: Any, output: Any) -> None:
        labels = vars(self._open).get("labels")
        if labels:
            labels.pop().__exit__(None, None, None)
