"""Imported at the start of Python by tachograph_replace.pth where TACHOGRAPH_REPLACE is set and not 0: once torch has
been imported, tachograph/_replace.py puts our classes in the place of torch.profiler's names. Before that nothing of
the package is imported, so a Python without torch pays only for this file."""

import os


def _replace():
    try:
        from tachograph._replace import replace

        replace()
    except Exception as error:  # the program goes on with torch's own profiler
        import warnings

        warnings.warn(f"TACHOGRAPH_REPLACE: torch.profiler stays torch's own: {error}", RuntimeWarning, stacklevel=2)


_path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tachograph", "_imports.py")
with open(_path, encoding="utf-8") as _file:
    _imports = {"__name__": "_tachograph_imports"}
    exec(compile(_file.read(), _path, "exec"), _imports)
_imports["when_imported"]("torch", _replace)
