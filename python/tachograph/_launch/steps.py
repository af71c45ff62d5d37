"""Finds where one step ends and the next begins, in a program that does not say so.

Five kinds of signs, best first: calls of a profiler's step(), steps of the first optimizer, zero_grad of one that never
steps, as its program writes the update out, fetches from the first DataLoader, calls of the first module with
parameters. The best kind seen so far counts. A step that an optimizer ended is over where the next fetch or zero_grad
begins: there no range of torch's or the program's is open. Each sign costs a microsecond or two; none of our frames is
on the stack while the program works; a hook that is being compiled does nothing; all can be taken off again."""

from __future__ import annotations

import functools
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from .. import _launch
from .._collect import metadata
from .._imports import is_imported
from .notice import notice

KINDS = ("step() calls", "optimizer steps", "zero_grad calls", "DataLoader iterations", "calls of the model")
CALLS = "calls of the model on several threads"
STEP, OPTIMIZER, ZERO_GRAD, LOADER, MODULE = range(len(KINDS))
UNSTEPPED = 2  # so often gradients may be cleared before the first step of an optimizer
EVAL_FRAME = "torch._dynamo.eval_frame"
REMOVE_TRIES, REMOVE_SECONDS = 500, 0.002  # for a moment in which nothing iterates over what is changed
PATIENCE = 64  # an optimizer that exists may gather gradients over so many batches before its first step


def _is_inner() -> bool:
    """Is the module that is called a part of one that is called? So it may be where we came to a program that runs."""
    frame, calls = sys._getframe(2), 0
    while frame is not None:
        calls += frame.f_code.co_name == "_call_impl"
        frame = frame.f_back  # type: ignore[assignment]
    return calls > 1


def _is_in(path: str | None) -> bool:
    """Does any thread run a function of this file now, or wait for one it called?"""
    frames = list(sys._current_frames().values())
    while frames:
        frame = frames.pop()
        if frame.f_code.co_filename == path:
            return True
        if frame.f_back is not None:
            frames.append(frame.f_back)
    return False


class StepFinder:
    """Calls, in the program's thread: on_kind() when steps follow from another kind of event from now on, on_boundary()
    where one step ends and the next begins, on_break() when what was begun is no step. joins: the program runs already;
    hooks are put on and taken off by another thread than its own, and none becomes a part of its models, which it may
    save, copy or compile meanwhile. Then, where several threads call the model, as those of a server do, each call is a
    step by itself: on_call(True) where one begins, on_call(False) where it ends, on its thread.

    Nothing is imported: what torch has not loaded at its own import is not watched."""

    def __init__(
        self,
        torch: Any,
        on_kind: Callable[[], None],
        on_boundary: Callable[[], None],
        on_break: Callable[[], None],
        joins: bool = False,
        on_call: Callable[[bool], None] = lambda begins: None,
    ):
        self.torch, self.on_kind, self.on_boundary, self.on_break = torch, on_kind, on_boundary, on_break
        self.on_call = on_call
        self.kind: int | None = None
        self.calls = False  # each call of the model is a step
        self.locked = False  # the kind is final: the recording has begun
        self.labelled = False  # the program puts labels on its steps itself
        self._seen = [0] * len(KINDS)
        self._owner: dict[int, Any] = {}  # the first optimizer, loader and module: others mean other things
        self._fed: dict[
            int, Any
        ] = {}  # data set → weak reference to its iterator: fetched from with gradients on, in this order
        self._noted_loader = 0  # the data set of the loader with settings that are known
        self._optimizer_made = False
        self._over = False  # the optimizer has stepped, and the next step has not begun
        self._zero_read_at = sys.maxsize  # where in zero_grad its name was read last
        self._thread = threading.get_native_id()
        self._undo: list[Callable[[], None]] = []
        self._joins = joins
        self._module_hook: Any = None
        try:
            self._watch_steps()
            self._watch_optimizers()
            self._watch_loaders()
            self._watch_modules()
        except BaseException:
            self.remove()
            raise

    @property
    def name(self) -> str:
        return "" if self.kind is None else CALLS if self.calls else KINDS[self.kind]

    @property
    def watches_modules(self) -> bool:
        """Is there a hook that all calls of modules take?"""
        return self._module_hook is not None

    def remove(self) -> None:
        failed: Exception | None = None
        while self._undo:
            try:
                self._undo.pop()()
            except Exception as error:
                failed = error
        if failed is not None:
            raise failed

    def drop_module_hook(self) -> None:
        """Where a better sign than calls of modules was found: each of these calls takes the longer path no more, 3 us
        each. Code that torch.compile made meanwhile is compiled again once."""
        if self.kind is not None and self.kind < MODULE:
            self._forget_modules()

    def join_running(self) -> None:
        """The program was not watched from its start: optimizers that it made show by the step of their class, which
        torch replaces when the first is made."""
        if not is_imported("torch.optim.optimizer"):
            return
        kinds = [sys.modules["torch.optim.optimizer"].Optimizer]
        for kind in kinds:
            kinds += kind.__subclasses__()
        if any(getattr(kind.step, "hooked", False) for kind in kinds):
            self._optimizer_made = True
            self._forget_modules()

    def forked(self) -> None:
        """In a child: steps are found again, by the thread that lives."""
        self.kind, self.locked = None, False
        self._seen, self._owner, self._fed, self._over = [0] * len(KINDS), {}, {}, False
        self._thread = threading.get_native_id()

    def sign(self, kind: int, owner: Any = None) -> None:
        """Something happened that may be a boundary."""
        if self.kind == kind == MODULE and self._joins and self._owner[kind] == owner:
            self._split_calls()
        if self.calls:
            if kind == MODULE and self._owner[kind] == owner:
                self.on_call(True)
            return
        if threading.get_native_id() != self._thread and self.kind is not None:
            return
        if kind in self._owner and self._owner[kind] != owner:
            return
        self._owner.setdefault(kind, owner)
        self._seen[kind] += 1
        if kind != self.kind:
            if self.locked or (self.kind is not None and kind > self.kind) or not self._may_lead(kind):
                return
            self.kind, self._thread, self._over = kind, threading.get_native_id(), False
            if kind == OPTIMIZER:
                self._choose_loader()
            self.on_kind()
        if kind == OPTIMIZER and not self._over:
            self._over = True  # but for what the program does until it begins the next
        else:
            self.on_boundary()

    def _split_calls(self) -> None:
        """Is it a call on another thread than before?"""
        if self.calls or threading.get_native_id() == self._thread:
            return
        self.calls = True
        hooks = self.torch.nn.modules.module
        if self._module_hook is not None:
            self._undo.append(hooks.register_module_forward_hook(self._called).remove)
        self.on_kind()

    def _called(self, module: Any, _inputs: Any, _output: Any) -> None:
        if self._owner.get(MODULE) == id(module) and not self.torch.compiler.is_compiling():
            self.on_call(False)

    def _next_begins(self) -> None:
        if self._over and threading.get_native_id() == self._thread:
            self._over = False
            self.on_boundary()

    def _choose_loader(self) -> None:
        """The loader that feeds the optimizer need not be the first: some trainers try their validation before anything
        else. It is the first of those that are still being iterated over."""
        for data, iterator in self._fed.items():
            if iterator() is not None:
                self._owner[LOADER] = data
                break
        self._fed.clear()

    def _may_lead(self, kind: int) -> bool:
        if kind == LOADER and self._optimizer_made:
            return self._seen[OPTIMIZER] == 0 and self._seen[LOADER] > PATIENCE
        if kind == ZERO_GRAD:
            return self._seen[OPTIMIZER] == 0 and self._seen[ZERO_GRAD] > UNSTEPPED
        return True

    # ---- signs

    def _replace(self, owner: Any, name: str, wrap: Callable[[Callable], Callable]) -> None:
        original = owner.__dict__[name]
        replacement = functools.wraps(original)(wrap(original))
        setattr(owner, name, replacement)

        def undo() -> None:
            if owner.__dict__.get(name) is replacement:
                setattr(owner, name, original)

        self._undo.append(undo)

    def _notice(
        self,
        owner: type,
        name: str,
        read: Callable[[Any], None] | None = None,
        write: Callable[[Any, Any], None] | None = None,
    ) -> None:
        undo = notice(owner, name, read, write)
        if undo is not None:
            self._undo.append(undo)

    def _watch_steps(self) -> None:
        profiler = sys.modules.get("torch.profiler.profiler") or getattr(self.torch, "profiler", None)
        if profiler is None or "step" not in vars(profiler.profile):
            return

        def wrap(original: Callable) -> Callable:
            def step(profile: Any) -> Any:
                self._stepped(profile.record_steps)  # before: a recording that ends here has the step's label whole
                return original(profile)

            return step

        self._replace(profiler.profile, "step", wrap)
        _launch.listener = self._stepped
        self._undo.append(lambda: setattr(_launch, "listener", None))

    def _stepped(self, labelled: bool) -> None:
        self.labelled = labelled
        self.sign(STEP)

    def _watch_optimizers(self) -> None:
        if not is_imported("torch.optim.optimizer"):
            return
        optim = sys.modules["torch.optim.optimizer"]
        Optimizer = optim.Optimizer
        compiling = self.torch.compiler.is_compiling

        def stepped(optimizer: Any, _args: Any, _kwargs: Any) -> None:
            if not compiling():
                self.sign(OPTIMIZER, id(optimizer))

        def wrap(original: Callable) -> Callable:
            def __init__(optimizer: Any, *args: Any, **kwargs: Any) -> None:
                self._optimizer_made = True
                self._forget_modules()
                original(optimizer, *args, **kwargs)

            return __init__

        def zeroed(optimizer: Any) -> None:
            if compiling():
                return
            at, before = sys._getframe(2).f_lasti, self._zero_read_at
            self._zero_read_at = at
            if at > before:
                return  # farther on in the same zero_grad, which asks for the attribute before it takes it
            if self._owner.get(OPTIMIZER) == id(optimizer):
                self._next_begins()
            if not self._seen[OPTIMIZER]:
                self.sign(ZERO_GRAD, id(optimizer))

        self._replace(Optimizer, "__init__", wrap)
        self._notice(Optimizer, "_zero_grad_profile_name", read=zeroed)  # read where zero_grad begins
        others = getattr(optim, "_global_optimizer_post_hooks", {})
        # torch calls them one after the other out of a dict: where it has more than one, it must not change meanwhile.
        if not self._joins or not others:
            hook = optim.register_optimizer_step_post_hook(stepped)
            self._undo.append(lambda: self._unhook_optimizer(hook, others))

    def _unhook_optimizer(self, hook: Any, others: Any) -> None:
        for _ in range(REMOVE_TRIES if self._joins else 0):
            if len(others) <= 1 or not _is_in(sys.modules["torch.optim.optimizer"].__file__):
                break
            time.sleep(REMOVE_SECONDS)
        hook.remove()

    def _watch_loaders(self) -> None:
        if not is_imported("torch.utils.data") or not is_imported("torch.utils.data.dataloader"):
            return
        get_worker_info = self.torch.utils.data.get_worker_info
        _BaseDataLoaderIter = self.torch.utils.data.dataloader._BaseDataLoaderIter
        grad_on = self.torch.is_grad_enabled

        def fetches(loader: Any) -> None:
            if get_worker_info() is not None:
                return
            self._forget_modules()
            if id(loader._dataset) != self._noted_loader and self._owner.get(LOADER, id(loader._dataset)) == id(
                loader._dataset
            ):
                self._noted_loader = id(loader._dataset)
                metadata.note_loader(loader)
            if self._optimizer_made and self.kind != OPTIMIZER and grad_on():
                self._fed[id(loader._dataset)] = weakref.ref(loader)
            if self.kind == OPTIMIZER and self._owner.get(LOADER) in (None, id(loader._dataset)):
                self._next_begins()
            self.sign(LOADER, id(loader._dataset))

        def counts(loader: Any, yielded: int) -> None:
            if not yielded and self._owner.get(LOADER) == id(loader.__dict__.get("_dataset")):
                self._over = True
                self.on_break()  # a new epoch: what was between the two, validation or saving, belongs to no step

        self._notice(_BaseDataLoaderIter, "_profile_name", read=fetches)  # read where a fetch begins
        self._notice(_BaseDataLoaderIter, "_num_yielded", write=counts)  # set to 0 where an epoch begins

    # The global hook makes every module call take a longer path, and code that was compiled while it was there is
    # compiled again when it goes. So it goes before any model runs when there is an optimizer or a loader, and else at
    # the first call of a model.
    def _watch_modules(self) -> None:
        if self._joins and is_imported(EVAL_FRAME):
            self._watch_compiled()
            if getattr(sys.modules[EVAL_FRAME], "cached_backends", True):
                return  # code may be compiled with the hook in it, and again without
        compiling = self.torch.compiler.is_compiling
        in_worker = self.torch.utils.data.get_worker_info

        def own(_module: Any, _inputs: Any) -> None:
            if not compiling():
                self.sign(MODULE, id(_module))

        def any_module(module: Any, _inputs: Any) -> None:
            if compiling() or self._owner.get(MODULE, id(module)) != id(module):  # of all calls, nearly every one
                return
            if in_worker() is not None or next(module.parameters(), None) is None:
                return
            if MODULE not in self._owner and _is_inner():
                return
            if self._joins or "torch._dynamo" in sys.modules:
                self.sign(MODULE, id(module))
                return
            self._forget_modules()
            self._undo.append(module.register_forward_pre_hook(own).remove)
            self.sign(MODULE, id(module))

        self._module_hook = self.torch.nn.modules.module.register_module_forward_pre_hook(any_module)
        self._undo.append(self._unhook_modules)

    def _watch_compiled(self) -> None:
        """What torch.compile made of a module warns when it is called and there is a global hook."""

        def wrap(original: Callable) -> Callable:
            def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:
                self._unhook_modules()
                self.sign(MODULE, id(module))
                try:
                    return original(module, *args, **kwargs)
                finally:
                    if self.calls and self._owner.get(MODULE) == id(module):
                        self.on_call(False)

            return __call__

        kind = getattr(sys.modules[EVAL_FRAME], "OptimizedModule", None)
        if kind is not None and "__call__" in vars(kind):
            self._replace(kind, "__call__", wrap)

    def look(self) -> None:
        """Now and then, by another thread: the program begins to import torch's compiler."""
        if self._module_hook is not None and not is_imported(EVAL_FRAME) and "torch._dynamo" in sys.modules:
            self._unhook_modules()

    def _forget_modules(self) -> None:
        if self.kind != MODULE:
            self._unhook_modules()

    def _unhook_modules(self) -> None:
        hook, self._module_hook = self._module_hook, None
        if hook is not None:
            hook.remove()
