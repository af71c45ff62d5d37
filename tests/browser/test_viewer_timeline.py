"""The timeline: keys, selection, search, links, and tiles of the page against tiles of the server."""

import json
import random

import pytest


@pytest.fixture
def timeline(shared_view, open_page, until):
    p = open_page(shared_view.url).go("#/timeline")
    until(p.page, "globalThis.tachographMeter && tachographMeter.tiles > 0 && tachographMeter.inFlight === 0")
    return p


def window(p):
    """t0 and t1 of the address, once it stands still."""
    p.rest()
    return p.page.evaluate(
        "(() => { const q = new URLSearchParams(location.hash.split('?')[1]); return [Number(q.get('t0')), Number(q.get('t1'))]; })()"
    )


def test_keys_zoom_and_pan(timeline):
    timeline.page.locator(".timeline .rows").focus()
    timeline.page.keyboard.press("w")
    a0, a1 = window(timeline)
    timeline.page.keyboard.press("w")
    b0, b1 = window(timeline)
    assert b0 > a0 and b1 < a1
    timeline.page.keyboard.press("d")
    c0, c1 = window(timeline)
    assert c0 > b0 and c1 - c0 == pytest.approx(b1 - b0, abs=2)
    timeline.page.keyboard.press("s")
    d0, d1 = window(timeline)
    assert d1 - d0 > c1 - c0


@pytest.mark.brief
def test_search_counts_every_hit_and_walks_through_them(timeline, until, shared_view, tachograph):
    answer = json.loads(tachograph("ask", shared_view.files[0], "events", "--json").stdout)
    names = [c["name"] for c in answer["columns"]]
    events = [dict(zip(names, row, strict=True)) for row in answer["rows"]]
    name = max({e["name"] for e in events}, key=lambda n: sum(n in e["name"] for e in events))
    count = sum(name.lower() in e["name"].lower() for e in events)
    timeline.page.fill("#find", name)
    until(timeline.page, "document.querySelector('.timeline [role=status]').textContent.includes('hit')")
    assert timeline.page.locator(".timeline [role=status]").inner_text().split(" ")[0] == str(count)
    timeline.page.press("#find", "Enter")
    timeline.page.wait_for_selector(".details h3")
    assert name.lower() in timeline.page.inner_text(".details h3").lower()
    assert timeline.page.locator(".timeline [role=status]").inner_text() == f"1 of {count}"


def test_a_chosen_slice_comes_back_with_the_address(timeline, open_page):
    timeline.page.evaluate("location.hash = '#/timeline?slice=0'")
    timeline.page.wait_for_selector(".details h3")
    name = timeline.page.inner_text(".details h3")
    timeline.rest()
    again = open_page(timeline.url)
    again.page.goto(timeline.page.url)
    again.page.wait_for_selector(".details h3")
    assert again.page.inner_text(".details h3") == name


def test_a_drag_with_shift_adds_up_the_window(timeline):
    box = timeline.page.locator(".timeline .rows").bounding_box()
    y = box["y"] + 120
    timeline.page.keyboard.down("Shift")
    timeline.page.mouse.move(box["x"] + 300, y)
    timeline.page.mouse.down()
    timeline.page.mouse.move(box["x"] + 900, y, steps=4)
    timeline.page.mouse.up()
    timeline.page.keyboard.up("Shift")
    timeline.page.wait_for_selector("#aggregate-table")
    timeline.rest(100)
    s0, s1 = timeline.page.evaluate(
        "(() => { const q = new URLSearchParams(location.hash.split('?')[1]); return [Number(q.get('s0')), Number(q.get('s1'))]; })()"
    )
    direct = timeline.page.evaluate(
        "([a, b]) => tachograph.server.call('aggregate', {trace: 0, start_ns: a, end_ns: b, by: 'name', limit: 500})",
        [s0, s1],
    )
    shown = timeline.page.locator("#aggregate-table tbody tr td:first-child").all_inner_texts()
    assert len(shown) == len(direct["rows"]) > 0
    assert shown[0].split("…")[0] in direct["rows"][0][0]


def test_the_timeline_moves_while_a_selection_is_added_up(timeline, until):
    """The answer is kept back until the test lets it go; each key draws a frame meanwhile."""
    rows = timeline.page.locator(".timeline .rows")
    rows.focus()
    timeline.page.keyboard.press("w")
    timeline.page.evaluate(
        """() => {
          const s = tachograph.server, call = s.call.bind(s);
          s.call = async (name, members) => {
            const reply = await call(name, members);
            if (name === "aggregate") await new Promise((done) => { globalThis.letGo = done; });
            return reply;
          };
        }"""
    )
    box = rows.bounding_box()
    timeline.page.mouse.move(box["x"] + 300, box["y"] + 10)
    timeline.page.mouse.down()
    timeline.page.mouse.move(box["x"] + 700, box["y"] + 10, steps=4)
    timeline.page.mouse.up()
    until(timeline.page, "globalThis.letGo !== undefined")
    assert rows.get_attribute("aria-busy") == "true"
    t0, t1 = window(timeline)
    frames = timeline.page.evaluate("tachographMeter.frames.length")
    timeline.page.keyboard.press("w")
    u0, u1 = window(timeline)
    assert u1 - u0 < t1 - t0
    assert timeline.page.evaluate("tachographMeter.frames.length") > frames
    assert timeline.page.locator("#aggregate-table").count() == 0
    timeline.page.evaluate("letGo()")
    timeline.page.wait_for_selector("#aggregate-table")
    until(timeline.page, "document.querySelector('.timeline .rows').ariaBusy === 'false'")


TILES = """async ([level, row, number]) => {
  const make = await import(new URL("model/tilemaker.js", location.href.split("#")[0]).href);
  const reply = await tachograph.server.tiles({trace: 0, level, tiles: [row, number]});
  const theirs = reply.tiles[0], slices = globalThis.rowSlices[row] ?? [];
  const list = (type, key) => type.from(slices, (s) => s[key]);
  const mine = make.makeTile({start: list(Float64Array, "start"), dur: list(Float64Array, "dur"), slice: list(Uint32Array, "slice"),
    name: new Uint32Array(slices.length), look: new Uint8Array(slices.length), shade: new Uint8Array(slices.length), flags: new Uint8Array(slices.length)}, row, level, number);
  const pick = (t) => ({n: t.n, slice: [...t.slice], column: [...t.column], length: [...t.length], density: [...t.density], more: [...t.flags].map((f) => f & 4)});
  return [pick(theirs), pick(mine)];
}"""


@pytest.mark.brief
def test_tiles_of_the_page_equal_those_of_the_server(timeline, shared_view, tachograph):
    answer = json.loads(tachograph("ask", shared_view.files[0], "events", "--json").stdout)
    names = [c["name"] for c in answer["columns"]]
    info = timeline.page.evaluate("tachograph.info()")
    origin = int(info["origin_ns"])
    slices = {}
    for row in answer["rows"]:
        e = dict(zip(names, row, strict=True))
        place = timeline.page.evaluate("(s) => tachograph.server.call('slice', {trace: 0, slice: s})", e["id"])
        start = e["start_ns"] + int(info["ranks"][0]["offset_ns"]) - origin
        assert (place["start_ns"], place["dur_ns"]) == (start, e["dur_ns"])
        slices.setdefault(place["row"], []).append({"slice": e["id"], "start": start, "dur": e["dur_ns"]})
    for row in slices.values():
        row.sort(key=lambda s: (s["start"], s["slice"]))
    timeline.page.evaluate("(s) => { globalThis.rowSlices = s; }", {str(k): v for k, v in slices.items()})
    rng = random.Random(7)
    for _ in range(60):
        level = rng.randrange(0, max(1, info["end_ns"].bit_length()))
        row = rng.choice(sorted(slices))
        tile = rng.randrange(0, info["end_ns"] // (1024 << level) + 1)
        theirs, mine = timeline.page.evaluate(TILES, [level, row, tile])
        assert theirs == mine, (level, row, tile)
