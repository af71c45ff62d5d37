"""Do something as soon as a module has been imported, without importing it."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing's, which is not imported: _tachograph_replace.py runs this file at the start of Python
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any
else:
    ModuleType = type(sys)


class Watch:
    """Calls `action` once, right after `name` has been imported. A finder in sys.meta_path that finds nothing itself:
    it asks the others and is called by their loader at the end. cancel() takes it out again."""

    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self.name, self.action = name, action
        sys.meta_path.insert(0, self)

    def cancel(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        finders = list(sys.meta_path)
        for finder in finders[finders.index(self) + 1 :]:  # another Watch may stand before this one, and asks it
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                self._follow(spec)
                return spec
        return None

    def _follow(self, spec: ModuleSpec) -> None:
        loader: Any = spec.loader
        run = getattr(loader, "exec_module", None)
        if run is None:
            return

        def exec_module(module: Any) -> None:
            vars(loader).pop("exec_module", None)  # the loader is itself again
            run(module)
            if self in sys.meta_path:
                self.cancel()
                # It has run to its end: others, on other threads, need not wait for us.
                spec._initializing = False  # type: ignore[attr-defined]  # importlib's own
                self.action()

        loader.exec_module = exec_module


def is_imported(name: str) -> bool:
    """Is the module there, and to its end?"""
    module = sys.modules.get(name)
    return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)


def put_back(known: set[str], originals: list[tuple[Any, Any]]) -> None:
    """Modules that were imported since sys.modules had the known ones may have taken what stood in the place of
    something: `from json import load`. originals: pairs of what stood there and what it stood for."""
    for name in set(sys.modules) - known:
        module = sys.modules.get(name)
        if isinstance(module, ModuleType):  # a lazy one would be loaded by a plain look at its names
            names = ModuleType.__getattribute__(module, "__dict__")
            for taken, value in list(names.items()):
                for ours, original in originals:
                    if value is ours:
                        names[taken] = original


def when_imported(name: str, action: Callable[[], None]) -> Watch | None:
    """action() now when the module is there, else after its import; then what is returned can be cancelled."""
    if not is_imported(name):
        return Watch(name, action)
    action()
    return None
