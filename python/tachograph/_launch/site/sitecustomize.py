"""Read by Python at its start when `tachograph run` started it. Waits until the program imports torch, and makes way for the
sitecustomize that the user has. Does nothing at all without TACHOGRAPH_RUN, and nothing that the program could see but that.

Nothing is imported here that Python has not imported itself: a module of the program may have the name of one of the library's."""
import os
import sys


class TorchWatcher:
    """First on sys.meta_path until torch has been imported; then tells the session, and is gone."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
        import importlib.util
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        spec.loader = _Loader(spec.loader)
        return spec


class _Loader:
    """The loader of torch, and one call when it is done."""

    def __init__(self, loader):
        self.loader = loader

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        module.__spec__._initializing = False  # it is whole now, and the recorder asks
        try:
            from tachograph._launch import session
        except Exception as error:  # another Python than the one that has the package: then this process is not recorded
            _note_missing(error)
        else:
            session.begin()


def _log(text):
    try:
        with open(os.path.join(os.environ["TACHOGRAPH_RUN_FOLDER"], "raw", "log-%d" % os.getpid()), "a") as log:
            log.write(text)
    except (OSError, KeyError):
        pass


def _note_missing(error):
    _log("note not recorded: %s has no usable tachograph (%s)\n" % (sys.executable, str(error).replace("\n", " ")))


def _users_own():
    """Run the sitecustomize that would have run without us, under its own name."""
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import PathFinder
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != here]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("TACHOGRAPH_RUN"):
    _log("")  # an empty one: the parent can tell a Python that was started with -I or -S from no Python at all
    sys.meta_path.insert(0, TorchWatcher())
_users_own()
