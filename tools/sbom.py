#!/usr/bin/env python3
"""The list of what a wheel is made of, in CycloneDX, from the tables of docs/dependencies.md and from pyproject.toml.

    tools/sbom.py OUT [TG_WITH_ZSTD=FOLDER …] [TG_XXHASH=FOLDER]

Named are the libraries of this build, each with the folder of its header.

The versions are those of the headers. A time or a random number would make two builds differ, so there is none."""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Switch (xxHash has none) → header, and the patterns of its version's parts.
HEADERS = {
    "TG_WITH_ISAL": ("isa-l.h", r"ISAL_MAJOR_VERSION (\d+)", r"ISAL_MINOR_VERSION (\d+)", r"ISAL_PATCH_VERSION (\d+)"),
    "TG_WITH_ZLIB": ("zlib.h", r'ZLIB_VERSION "([\d.]+)'),
    "TG_WITH_ZSTD": ("zstd.h", *(rf"ZSTD_VERSION_{part}\s+(\d+)" for part in ("MAJOR", "MINOR", "RELEASE"))),
    "TG_WITH_SQLITE": ("sqlite3.h", r'SQLITE_VERSION\s+"([\d.]+)"'),
    "TG_WITH_SERVER": ("lws_config.h", r'LWS_LIBRARY_VERSION "([\d.]+)'),
    "TG_XXHASH": ("xxhash.h", *(rf"XXH_VERSION_{part}\s+(\d+)" for part in ("MAJOR", "MINOR", "RELEASE"))),
}
LICENCE_IDS = {"public domain": "blessing"}  # SQLite's, as SPDX calls it


def table(title):
    """(name, address, licence, third cell) of the table of docs/dependencies.md with this word in its first head."""
    text = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
    rows = re.search(rf"^\| {title} \|.*\n\|[ -|]*\n((?:\|.*\n)+)", text, flags=re.M).group(1)
    for row in rows.splitlines():
        name, licence, third = (cell.strip() for cell in row.split("|")[1:4])
        yield (*re.fullmatch(r"\[(.+)\]\((.+)\)", name).groups(), licence, third.strip("`"))


def version(switch, folder):
    """As the header says it; empty when it does not."""
    header, *patterns = HEADERS[switch]
    places = [pathlib.Path(folder) / header, pathlib.Path(folder) / "isa-l" / header]
    text = next((p.read_text(errors="replace") for p in places if p.exists()), "")
    parts = [re.search(r"#\s*define\s+" + pattern, text) for pattern in patterns]
    return ".".join(p.group(1) for p in parts) if all(parts) else ""


def component(name, address, licence, purl, **others):
    licence = LICENCE_IDS.get(licence, licence)
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        **others,
        "licenses": [{"license": {"id": licence}}],
        "purl": purl,
        "externalReferences": [{"type": "website", "url": address}],
    }


def linked(folders):
    for name, address, licence, switch in table("library"):
        switch = {"none": "TG_XXHASH"}.get(switch, switch)
        if switch in folders:
            found = version(switch, folders[switch])
            purl = f"pkg:generic/{name.lower()}" + (f"@{found}" if found else "")
            yield component(name, address, licence, purl, scope="required", **({"version": found} if found else {}))


def optional():
    for name, address, licence, _ in table("package"):
        yield component(name, address, licence, f"pkg:pypi/{name.lower()}", scope="optional")


def document(folders):
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    ours, licence, about = (
        re.search(rf"^{key} = {value}", project, flags=re.M).group(1)
        for key, value in (("version", r'"(.+)"'), ("license", r'\{ text = "(.+)" \}'), ("description", r'"(.+)"'))
    )
    purl = f"pkg:pypi/tachograph@{ours}"
    main = {"type": "library", "bom-ref": purl, "name": "tachograph", "version": ours, "description": about}
    main |= {"licenses": [{"license": {"id": licence}}], "purl": purl}
    components = [*linked(folders), *optional()]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": main},
        "components": components,
        "dependencies": [{"ref": purl, "dependsOn": [c["bom-ref"] for c in components if c["scope"] == "required"]}],
    }


if __name__ == "__main__":
    given = dict(word.split("=", 1) for word in sys.argv[2:])
    pathlib.Path(sys.argv[1]).write_text(json.dumps(document(given), indent=2) + "\n", encoding="utf-8")
