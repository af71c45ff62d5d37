"""The map of a memory snapshot: only bands in sight, the figures of `ask memory_map`, and the same by keyboard."""

import json
import pathlib
import pickle
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import snapshots


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    path = tmp_path_factory.mktemp("snapshot") / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshots.snapshot([snapshots.Device(k, 3 + k, 3000) for k in (0, 1)])))
    return path


def ask(tachograph, path, *args):
    answer = json.loads(tachograph("ask", path, "memory_map", *args, "--json").stdout)
    return [dict(zip([c["name"] for c in answer["columns"]], row, strict=True)) for row in answer["rows"]]


def hue_at(page, x, y):
    """Red, green and blue of the map at a share of its width and height."""
    return page.evaluate(
        """([x, y]) => { const c = document.querySelector("#block-map canvas");
          return [...c.getContext("2d").getImageData(x * c.width, y * c.height, 1, 1).data].slice(0, 3); }""",
        [x, y],
    )


def test_the_map_shows_a_device_and_its_largest_blocks(snapshot, view, open_page, tachograph):
    p = open_page(view(snapshot).url).go("#/memory")
    assert p.page.get_by_role("button", name="GPU0").get_attribute("aria-pressed") == "true"
    rows = ask(tachograph, snapshot, "--device", "GPU0")
    assert f"The {len(rows)} largest blocks" in p.page.inner_text("#memory-map").replace("\u202f", "")
    level = ask(tachograph, snapshot, "--device", "GPU0", "--by", "level")
    highest = max(range(len(level)), key=lambda k: level[k]["bytes"])
    assert hue_at(p.page, (highest + 0.5) / len(level), 0.005) != [0, 0, 0]
    assert hue_at(p.page, 0.002, 0.01) == [0, 0, 0]  # nothing was in use there
    p.page.get_by_role("button", name="GPU1").click()
    p.ready()
    assert "mdev=GPU1" in p.page.url
    assert p.errors == []


def test_the_overview_of_a_snapshot_says_what_was_held(snapshot, view, open_page, tachograph):
    p = open_page(view(snapshot).url).go("#/overview")
    text = p.page.inner_text("body").replace("\u00a0", " ").replace("\u202f", "")
    answer = json.loads(tachograph("ask", snapshot, "fragmentation", "--json").stdout)
    rows = [dict(zip([c["name"] for c in answer["columns"]], row, strict=True)) for row in answer["rows"]]
    for row in rows:
        assert f"{row['peak_allocated'] / 2**20:.0f} MiB in use at the peak" in text
        assert f"{row['mean_unused_percent']:.1f} % of it unused on average" in text
    assert "prof.step()" not in text and p.page.locator("#snapshot-stacks tr").count() == 5
    assert p.errors == []


def test_keys_walk_over_blocks_and_zoom(snapshot, view, open_page, tachograph, until):
    p = open_page(view(snapshot).url).go("#/memory?m0=100&m1=140")
    rows = ask(tachograph, snapshot, "--device", "GPU0", "--first", "100", "--past", "140")
    map_ = p.page.locator("#block-map")
    map_.focus()
    p.page.keyboard.press("ArrowUp")
    p.page.keyboard.press("ArrowDown")
    alive = [r for r in rows if r["event"] <= 120 and (r["until"] is None or r["until"] > 120)]
    said = p.page.inner_text("#live")
    assert f"event {alive[0]['event']}" in said.replace("\u202f", "")
    place = (alive[0]["stack"] or "no stack was recorded").split(";")[0]
    assert place in said and said == p.page.inner_text(".tip").replace("\n", ", ")
    p.page.keyboard.press("+")
    until(p.page, "location.hash.includes('m0=110&m1=130')")
    p.ready()
    p.page.locator("#block-map").focus()
    p.page.keyboard.press("0")
    until(p.page, "!location.hash.includes('m0')")
    assert p.errors == []


def test_a_drag_zooms_and_back_returns(snapshot, view, open_page, until):
    p = open_page(view(snapshot).url).go("#/memory")
    box = p.page.locator("#block-map canvas").bounding_box()
    p.page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 50)
    p.page.mouse.down()
    p.page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60)
    p.page.mouse.up()
    until(p.page, "/m0=\\d+&m1=\\d+/.test(location.hash)")
    p.ready()
    assert p.page.get_by_role("button", name="the whole history").is_enabled()
    p.page.go_back()
    until(p.page, "!location.hash.includes('m0')")


def test_a_snapshot_has_an_extent_on_the_timeline(tmp_path, view, open_page, tachograph):
    """Without annotations it has no slices: its events say how long it is."""
    path = tmp_path / "bare.pickle"
    content = {**snapshots.snapshot([snapshots.Device(0, 5, 500)]), "external_annotations": []}
    path.write_bytes(pickle.dumps(content))
    p = open_page(view(path).url).go("#/timeline")
    answer = json.loads(tachograph("ask", path, "memory_history", "--json").stdout)
    at = [c["name"] for c in answer["columns"]].index("ts_ns")
    times = [int(row[at]) for row in answer["rows"]]
    assert p.page.evaluate("tachograph.info().then((i) => i.end_ns)") == max(times) - min(times)
    assert p.errors == []
