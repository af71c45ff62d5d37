"""What builds and tests the package is pinned, and the build names one version of scikit-build-core."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OLD = 'python_version < "3.11"'  # numpy and pandas of the pins need 3.11


def requirements(file):
    lines = (line.strip() for line in (ROOT / "tools" / file).read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize(
    "file", ["requirements.txt", "requirements-check.txt", "requirements-docs.txt", "requirements-wheels.txt"]
)
def test_each_requirement_has_one_version(file):
    assert not [line for line in requirements(file) if "==" not in line and not line.endswith(OLD)]


def test_the_build_is_that_of_the_tests():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    needed = re.findall(r'"([^"]+)"', re.search(r"^requires = \[(.*)\]", project, flags=re.M).group(1))
    assert needed and set(needed) <= set(requirements("requirements.txt"))
    assert set(needed) <= set(requirements("requirements-wheels.txt"))
