"""Read by Python at its start when `tachograph run` started it. Waits until the program imports torch, then runs
the sitecustomize of the user. Does nothing at all without TACHOGRAPH_RUN, and nothing that the program could
see but that.

Nothing is imported here that Python has not imported itself: a module of the program may have the name of one of the
library's."""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_SHELLS = "sh", "bash", "dash", "ksh", "zsh"
_IN_FRONT = "exec", "env", "nohup", "time", "command"  # of the program that a shell starts
_system = os.system


class Watcher:
    """On sys.meta_path until a module has been imported; then calls action(module), and is gone."""

    def __init__(self, name, action):
        self.name, self.action = name, action

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
        found = (finder.find_spec(name, path, target) for finder in list(sys.meta_path) if hasattr(finder, "find_spec"))
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, self.action)  # type: ignore[assignment]  # passes all else on
        return spec


class _Loader:
    """The loader of a module, and one call when it is done."""

    def __init__(self, loader, action):
        self.loader, self.action = loader, action

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        module.__spec__._initializing = False  # it is whole now, and the recorder asks
        self.action(module)


def _begin(torch):
    try:
        from tachograph._launch import session
    except Exception as error:  # another Python than the one that has the package: then this process is not recorded
        _log("note not recorded: %s has no usable tachograph (%s)\n" % (sys.executable, str(error).replace("\n", " ")))
    else:
        session.begin()


# ---- programs that are started from here -------------------------------------------------------------------


def _watch_starts():
    """A Python that will not come to us is noted where it is started: it cannot say so itself."""
    for name, environment_at in (("execv", 9), ("execve", 2), ("posix_spawn", 2), ("posix_spawnp", 2)):
        if hasattr(os, name):
            setattr(os, name, _noting(getattr(os, name), 1, environment_at))
    os.system = _noting(os.system, 0, 9)
    sys.meta_path.insert(0, Watcher("_posixsubprocess", _watch_subprocess))


def _watch_subprocess(module):
    """subprocess and multiprocessing start their programs through this one function."""
    module.fork_exec = _noting(module.fork_exec, 0, 5)


def _noting(start, words_at, environment_at):
    def noting(*given, **named):
        try:
            words = ("sh", "-c", given[0]) if start is _system else given[words_at]
            environment = given[environment_at] if len(given) > environment_at else None
            for reason in _unrecorded([os.fsdecode(word) for word in words], environment):
                if not _is_for_compiler(sys._getframe(1)):
                    _log("unrecorded %s\n" % reason)
        except Exception:
            pass  # such words are for the function itself to refuse
        return start(*given, **named)

    vars(noting).update(__wrapped__=start)
    noting.__name__, noting.__doc__ = start.__name__, start.__doc__
    return noting


def _is_for_compiler(frame):
    """torch.compile starts Pythons that compile and run nothing of the program."""
    while frame and not str(frame.f_globals.get("__name__")).startswith("torch._inductor."):
        frame = frame.f_back
    return frame is not None


def _unrecorded(words, environment):
    """Of each Python that these words start in this environment (None: ours) and that does not come to us: why."""
    name = os.path.basename(words[0])
    if name in _SHELLS:
        command = next(
            (after for word, after in zip(words[1:], words[2:]) if word.startswith("-") and word.endswith("c")), ""
        )
        for simple in _commands(command):
            yield from _unrecorded_of_shell(simple, environment)
    elif name.startswith(("python", "pypy")):
        if any(option in "IES" for option in _options(words[1:])):
            yield "option"
        elif environment is not None and not _is_ours(environment):
            yield "environment"


def _unrecorded_of_shell(words, environment):
    while words and (words[0] in _IN_FRONT or "=" in words[0].split("/", 1)[0]):
        name, _, value = words[0].partition("=")
        if (name == "PYTHONPATH" and "$PYTHONPATH" not in value and "${PYTHONPATH" not in value) or words[:2] == [
            "env",
            "-i",
        ]:
            environment = {}
        words = words[2:] if words[:2] == ["env", "-i"] else words[1:]
    if words:
        yield from _unrecorded(words, environment)


def _commands(text):
    """The words of each simple command in what a shell is given, about: quotes are taken off, nothing is expanded."""
    words, word, quote = [], "", ""
    for c in text + "\n":
        if quote or c in "'\"":
            word += c if quote and c != quote else ""
            quote = c if not quote else "" if c == quote else quote
        elif c in " \t\n;&|(){}":
            words += [word] if word else []
            word = ""
            if c not in " \t" and words:
                yield words
                words = []
        else:
            word += c


def _is_ours(environment):
    pairs = environment.items() if hasattr(environment, "items") else (entry.split(b"=", 1) for entry in environment)
    variables = {os.fsdecode(name): os.fsdecode(value) for name, value in pairs}
    folders = variables.get("PYTHONPATH", "").split(os.pathsep)
    return variables.get("TACHOGRAPH_RUN") and _HERE in map(os.path.abspath, folders)


def _options(words):
    """The single letters in front of the script, module or command."""
    words = iter(words)
    for word in words:
        if not word.startswith("-") or word == "-":
            return
        for at, option in enumerate(word[1:] if not word.startswith("--") else "", 2):
            if option in "cm":
                return
            if option in "WX":  # the rest is its value, or the next word
                if at == len(word):
                    next(words, None)
                break
            yield option


def _log(text):
    try:
        with open(os.path.join(os.environ["TACHOGRAPH_RUN_FOLDER"], "raw", "log-%d" % os.getpid()), "a") as log:
            log.write(text)
    except (OSError, KeyError):
        pass


def _users_own():
    """Run the sitecustomize that would have run without us, under its own name."""
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import PathFinder

    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != _HERE]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _take_nvtx():
    """NVTX reads this variable at its first call in the process. One that names another tool stays."""
    from _imp import extension_suffixes

    package = os.path.dirname(os.path.dirname(_HERE))
    taken = os.environ.get("NVTX_INJECTION64_PATH")
    if taken and not os.path.basename(taken).startswith("_record."):  # ours, of another Python, is replaced
        return
    for suffix in extension_suffixes():
        path = os.path.join(package, "_record" + suffix)
        if os.path.isfile(path):
            os.environ["NVTX_INJECTION64_PATH"] = path
            return


if os.environ.get("TACHOGRAPH_RUN"):
    _log("")  # an empty one: the parent then knows that a Python was started, though with -I or -S
    sys.meta_path.insert(0, Watcher("torch", _begin))
    _take_nvtx()
    _watch_starts()
_users_own()
