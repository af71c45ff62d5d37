"""The installed package lists what it is made of (PEP 770): the libraries that its files link, no others, and the
optional packages of pyproject.toml."""

import importlib.metadata
import json
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGE = importlib.metadata.distribution("tachograph")
# Shared library → its name in the list; xxHash is a header, nothing of it is linked.
LIBRARIES = {
    "libisal": "ISA-L",
    "libz": "zlib",
    "libzstd": "zstd",
    "libsqlite3": "SQLite",
    "libwebsockets": "libwebsockets",
}
OF_THE_SYSTEM = {
    "libc",
    "libm",
    "libpthread",
    "libdl",
    "librt",
    "libgcc_s",
    "ld-linux-x86-64",
    "ld-linux-aarch64",
    "libtachograph",
}


@pytest.fixture(scope="module")
def listed():
    (name,) = (f for f in PACKAGE.files if re.search(r"\.dist-info/sboms/[^/]+$", str(f)))
    assert name.name == "tachograph.cdx.json"
    return json.loads(PACKAGE.locate_file(name).read_text(encoding="utf-8"))


def test_what_it_is_about(listed):
    main = listed["metadata"]["component"]
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", "1.6")
    assert (main["name"], main["version"]) == ("tachograph", PACKAGE.version)
    assert main["licenses"] == [{"license": {"id": "BSD-3-Clause"}}]
    assert "timestamp" not in listed["metadata"] and "serialNumber" not in listed  # two builds are equal


@pytest.mark.skipif(not shutil.which("readelf"), reason="no readelf")
def test_the_libraries_are_those_that_its_files_link(listed):
    linked = set()
    for file in PACKAGE.files:
        path = pathlib.Path(PACKAGE.locate_file(file))
        with path.open("rb") as binary:
            if binary.read(4) != b"\x7fELF":
                continue
        needed = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout
        linked |= {n.split(".so")[0] for n in re.findall(r"\(NEEDED\).*\[(.+)\]", needed)}
    required = {c["name"]: c for c in listed["components"] if c["scope"] == "required"}
    assert set(required) - {"xxHash"} == {LIBRARIES[name] for name in linked - OF_THE_SYSTEM}
    assert "xxHash" in required
    for part in required.values():
        assert re.fullmatch(r"\d+(\.\d+)+", part["version"]) and part["purl"].endswith("@" + part["version"]), part
    (ours,) = listed["dependencies"]
    assert set(ours["dependsOn"]) == {part["bom-ref"] for part in required.values()}


def test_every_optional_package_is_listed(listed):
    wanted = {re.match(r"[\w-]+", r).group() for r in PACKAGE.requires}
    assert {c["name"].lower() for c in listed["components"] if c["scope"] == "optional"} == wanted


def test_every_part_has_a_licence_an_address_and_a_name_of_its_own(listed):
    references = [c["bom-ref"] for c in listed["components"]]
    assert len(set(references)) == len(references)
    for part in listed["components"]:
        assert part["licenses"][0]["license"]["id"] in {
            "BSD-3-Clause",
            "BSD-2-Clause",
            "MIT",
            "Apache-2.0",
            "Zlib",
            "blessing",
        }
        assert part["externalReferences"][0]["url"].startswith("https://")
