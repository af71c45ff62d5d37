#!/usr/bin/env python3
"""The checked-in stubs beside what the installed package has at run time, by mypy's stubtest.

    tools/check_stubs.py    exit status 1 and what differs

stubtest itself would import every module of the package, and with them the example programs, which run. So it is asked
for the modules that have a stub. Run by .venv/bin/python, with mypy on its path (tools/check.sh)."""

import re
import sys
import tempfile

from mypy import stubtest
from mypy.options import Options

MODULES = ("tachograph", "tachograph._read", "tachograph._record")
# What is no fault, by a pattern of its name: the reason.
EXPECTED = (
    (r"tachograph\.\w+Row", "types of rows are there for type checkers only"),
    (r"tachograph\._(read\.Loss|record\.State)", "types of dicts, for type checkers only"),
    (r"tachograph\.__all__", "the stub has each name instead"),
    (r"tachograph\._read\.Column\.__iter__", "Python makes it of __getitem__ and __len__"),
)
NEWER_PYTHON = r"tachograph\._read\.Column\.__buffer__"  # a method from 3.12 on; before, memoryview() takes the object


def main():
    options = Options()
    options.ignore_errors = options.ignore_missing_imports = options.incremental = True  # mypy proper checks the code
    options.use_builtins_fixtures = False
    with tempfile.TemporaryDirectory() as cache:
        options.cache_dir = cache
        stubtest.build_stubs(list(MODULES), options, find_submodules=False)
        errors = [error for module in MODULES for error in stubtest.test_module(module)]
    # @disjoint_base is newer than the type checkers of many editors.
    errors = [e for e in errors if not e.is_disjoint_base_related() and not re.fullmatch(NEWER_PYTHON, e.object_desc)]
    used, faults = set(), []
    for error in errors:
        matches = [pattern for pattern, _ in EXPECTED if re.fullmatch(pattern, error.object_desc)]
        used |= set(matches)
        if not matches:
            faults.append(error.get_description(concise=True))
    faults += [f"not needed any more: {pattern}" for pattern, _ in EXPECTED if pattern not in used]
    print("\n".join(faults), end="\n" if faults else "")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
