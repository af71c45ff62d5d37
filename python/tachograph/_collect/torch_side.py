"""Settings in torch while we record: a profiler is active, its fast annotations, NVTX ranges and compiled kernels go to
us, and CUPTI is free for torch's own profiler. leave() undoes all of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from .. import _record
from .._imports import Watch, is_imported, put_back, when_imported
from .nvtx_ranges import NvtxLabels

_CODE_CACHE = "torch._inductor.codecache"
_KERNELS = ("cpp_fused_", "triton_")


class TorchSide:
    """enter() … leave(), any number of times. torch_came: called when torch is imported only after enter().
    release_cuda: called before torch's own profiler starts to record CUDA; None where we do not. watch_imports: False:
    Python's import system stays as it is, and look() is called now and then."""

    def __init__(
        self,
        torch_came: Callable[[], None],
        release_cuda: Callable[[], None] | None = None,
        watch_imports: bool = True,
    ) -> None:
        self._torch_came, self._release_cuda, self._watch_imports = torch_came, release_cuda, watch_imports
        self._prepare: Any = None  # torch.autograd.profiler's own _prepare_profiler
        self._is_in = False
        self._watches: list[Watch] = []
        if watch_imports:
            from .._labels import annotate  # noqa: F401  teaches dynamo our labels
        self._nvtx = NvtxLabels()
        self._fast: Any = None  # torch's own _RecordFunctionFast
        self._known: set[str] = set()  # names of the modules that were there before ours took its place
        # Where it stands, its name there, what we put in its place.
        self._kernels: list[tuple[dict[str, Any], str, _record.Kernel]] = []
        self._load: Any = None  # PyCodeCache.load_by_key_path as it was

    def enter(self) -> None:
        if self._is_in:
            return
        self._is_in = True
        if "torch" in sys.modules:
            self._torch_in()
        else:
            self._watch("torch", self._torch_late)

    def watch_cuda(self, release_cuda: Callable[[], None]) -> None:
        """We record CUDA too, from now on."""
        self._release_cuda = release_cuda
        if self._is_in and "torch" in sys.modules:
            self._cuda_in()

    def leave(self) -> None:
        if not self._is_in:
            return
        self._is_in = False
        for watch in self._watches:
            watch.cancel()
        self._watches.clear()
        self._kernels_out()
        self._cuda_out()
        self._nvtx.leave()
        self._annotations_out()

    def look(self) -> None:
        if self._is_in and not self._watch_imports and self._load is None and is_imported(_CODE_CACHE):
            self._kernels_in()

    def _watch(self, name: str, action: Callable[[], None]) -> None:
        watch = when_imported(name, action) if self._watch_imports or is_imported(name) else None
        if watch is not None:
            self._watches.append(watch)

    def _torch_late(self) -> None:
        self._torch_in()
        self._torch_came()

    def _torch_in(self) -> None:
        self._annotations_in()
        self._cuda_in()
        self._nvtx.enter()
        self._watch(_CODE_CACHE, self._kernels_in)

    # ---- annotations made by torch and by code it generated ------------------------------------------------

    def _annotations_in(self) -> None:
        import torch

        native: Any = torch._C._profiler
        if self._fast is None and hasattr(native, "_RecordFunctionFast"):
            self._known = set(sys.modules)
            self._fast, native._RecordFunctionFast = native._RecordFunctionFast, _record.RecordFunctionFast
        _set_profiler_state(torch.autograd.profiler, True)

    def _annotations_out(self) -> None:
        torch = sys.modules.get("torch")
        if self._fast is None or torch is None:
            return
        if torch._C._profiler._RecordFunctionFast is _record.RecordFunctionFast:
            torch._C._profiler._RecordFunctionFast = self._fast
        put_back(self._known, [(_record.RecordFunctionFast, self._fast)])
        self._fast = None
        if not torch._C._autograd._profiler_enabled():  # torch.profiler may be running as well
            _set_profiler_state(torch.autograd.profiler, False)

    # ---- CUPTI: torch's collector finds nothing in buffers that are ours -------------------------------------

    def _cuda_in(self) -> None:
        profiler = sys.modules["torch"].autograd.profiler
        prepare = getattr(profiler, "_prepare_profiler", None)
        if self._release_cuda is None or self._prepare is not None or prepare is None:
            return

        def prepare_profiler(config: Any, activities: Any, *rest: Any) -> Any:
            if self._is_in and self._release_cuda is not None and any(a.name == "CUDA" for a in activities):
                self._release_cuda()
            return prepare(config, activities, *rest)

        self._prepare = prepare
        profiler._prepare_profiler = prepare_profiler

    def _cuda_out(self) -> None:
        if self._prepare is not None:
            sys.modules["torch"].autograd.profiler._prepare_profiler = self._prepare
            self._prepare = None

    # ---- kernels compiled by inductor ----------------------------------------------------------------------

    def _kernels_in(self) -> None:
        cache = getattr(sys.modules[_CODE_CACHE], "PyCodeCache", None)
        if cache is None or not self._is_in:
            return
        loaded = getattr(cache, "modules", None)
        for module in list(
            cache.cache.values() if loaded is None else loaded
        ):  # up to 2.6 they are known by their keys
            self._wrap_module(module)
        self._load = cache.__dict__.get("load_by_key_path")
        if isinstance(self._load, classmethod):
            load = self._load.__func__

            def load_by_key_path(cls: Any, *args: Any, **kwargs: Any) -> Any:
                module = load(cls, *args, **kwargs)
                if self._is_in:
                    self._wrap_module(module)
                return module

            cache.load_by_key_path = classmethod(load_by_key_path)

    def _wrap_module(self, module: Any) -> None:
        names = vars(module)
        for name, kernel in list(names.items()):
            # Triton's have a method run() that reports itself once its hook is set.
            if (
                name.startswith(_KERNELS)
                and callable(kernel)
                and not hasattr(kernel, "run")
                and not isinstance(kernel, (type, _record.Kernel))
            ):
                wrapper = _record.Kernel(name, kernel)
                names[name] = wrapper
                self._kernels.append((names, name, wrapper))

    def _kernels_out(self) -> None:
        for names, name, wrapped in self._kernels:
            if names.get(name) is wrapped:
                names[name] = wrapped.__wrapped__
        self._kernels.clear()
        if self._load is not None:
            sys.modules[_CODE_CACHE].PyCodeCache.load_by_key_path = self._load
            self._load = None


def _set_profiler_state(profiler: Any, on: bool) -> None:
    """The flag that dynamo, inductor and users' code ask; through torch's own function where it has one."""
    act: Callable[[], None] | None = getattr(
        profiler, "_run_on_profiler_start" if on else "_run_on_profiler_stop", None
    )
    if act is not None:
        act()
    else:
        profiler._is_profiler_enabled = on
