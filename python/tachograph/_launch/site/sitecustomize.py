"""Read by Python at its start when `tachograph run` started it. Waits until the program imports torch, and makes way for the
sitecustomize that the user has. Does nothing at all without TACHOGRAPH_RUN, and nothing that the program could see but that.

Nothing is imported here that Python has not imported itself: a module of the program may have the name of one of the library's."""
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


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
            spec.loader = _Loader(spec.loader, self.action)
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


# ---- programs that are started from here -----------------------------------------------------------------------------------------


def _watch_starts():
    """A Python that will not come to us is noted where it is started: it cannot say so itself."""
    for name, environment_at in (("execv", 9), ("execve", 2), ("posix_spawn", 2), ("posix_spawnp", 2)):
        if hasattr(os, name):
            setattr(os, name, _noting(getattr(os, name), 1, environment_at))
    sys.meta_path.insert(0, Watcher("_posixsubprocess", _watch_subprocess))


def _watch_subprocess(module):
    """subprocess and multiprocessing start their programs through this one function."""
    module.fork_exec = _noting(module.fork_exec, 0, 5)


def _noting(start, words_at, environment_at):
    def noting(*given, **named):
        try:
            reason = _unrecorded(given[words_at], given[environment_at] if len(given) > environment_at else None)
            if reason:
                _log("unrecorded %s\n" % reason)
        except Exception:
            pass  # such words are for the function itself to refuse
        return start(*given, **named)
    noting.__name__, noting.__doc__, noting.__wrapped__ = start.__name__, start.__doc__, start
    return noting


def _unrecorded(words, environment):
    """Why a program with these words and this environment (None: ours) is a Python that does not come to us; None if it does, or is none."""
    words = [os.fsdecode(word) for word in words]
    if not os.path.basename(words[0]).startswith(("python", "pypy")):
        return None
    if any(option in "IES" for option in _options(words[1:])):
        return "option"
    if environment is None:
        return None
    pairs = environment.items() if hasattr(environment, "items") else (entry.split(b"=", 1) for entry in environment)
    variables = {os.fsdecode(name): os.fsdecode(value) for name, value in pairs}
    folders = variables.get("PYTHONPATH", "").split(os.pathsep)
    return None if variables.get("TACHOGRAPH_RUN") and _HERE in map(os.path.abspath, folders) else "environment"


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


if os.environ.get("TACHOGRAPH_RUN"):
    _log("")  # an empty one: the parent can tell a Python that was started with -I or -S from no Python at all
    sys.meta_path.insert(0, Watcher("torch", _begin))
    _watch_starts()
_users_own()
