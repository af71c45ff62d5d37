"""Fingers on the timeline and on flame graphs: one pans, two zoom, a tap chooses, one that rests selects."""

import pytest


class Fingers:
    """Touches sent as the browser gets them from a screen: each call says where all fingers are."""

    def __init__(self, page):
        self.page, self.session = page, page.context.new_cdp_session(page)

    def send(self, kind, *places):
        points = [{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(places)]
        self.session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def slide(self, begin, end, rest_ms=0, parts=8):
        """begin, end: a list of places each, one for a finger."""
        self.send("touchStart", *begin)
        self.page.wait_for_timeout(rest_ms)
        for k in range(1, parts + 1):
            self.send(
                "touchMove",
                *(
                    (x0 + (x1 - x0) * k / parts, y0 + (y1 - y0) * k / parts)
                    for (x0, y0), (x1, y1) in zip(begin, end, strict=True)
                ),
            )
        self.send("touchEnd")


@pytest.fixture
def timeline(shared_view, open_page, until):
    p = open_page(shared_view.url, touch=True).go("#/timeline")
    until(p.page, "globalThis.tachographMeter && tachographMeter.tiles > 0 && tachographMeter.inFlight === 0")
    p.box = p.page.locator(".timeline .rows").bounding_box()
    p.fingers = Fingers(p.page)
    yield p
    assert p.errors == []


def address(p, *names):
    """Numbers of the address, None where it has none, once it stands still."""
    p.page.wait_for_timeout(400)
    found = p.page.evaluate(
        "(names) => { const q = new URLSearchParams(location.hash.split('?')[1]); return names.map((n) => q.get(n)); }",
        list(names),
    )
    return [None if text is None else float(text) for text in found]


GUTTER = 200


def test_one_finger_pans(timeline):
    timeline.page.locator(".timeline .rows").focus()
    timeline.page.keyboard.press("w")
    t0, t1 = address(timeline, "t0", "t1")
    x, y = timeline.box["x"] + 700, timeline.box["y"] + 150
    timeline.fingers.slide([(x, y)], [(x - 160, y)])
    u0, u1 = address(timeline, "t0", "t1")
    per_px = (t1 - t0) / (timeline.box["width"] - GUTTER)
    assert u1 - u0 == pytest.approx(t1 - t0, abs=2)
    assert 140 < (u0 - t0) / per_px < 180  # less what the browser takes for a tap, and a scrollbar
    assert address(timeline, "s0", "slice") == [None, None]


def test_two_fingers_zoom_around_their_middle(timeline):
    timeline.page.locator(".timeline .rows").focus()
    timeline.page.keyboard.press("w")
    t0, t1 = address(timeline, "t0", "t1")
    middle, y = timeline.box["x"] + 600, timeline.box["y"] + 150
    timeline.fingers.slide([(middle - 50, y), (middle + 50, y)], [(middle - 100, y), (middle + 100, y)])
    u0, u1 = address(timeline, "t0", "t1")
    assert (t1 - t0) / (u1 - u0) == pytest.approx(2, rel=0.2)
    share = (600 - GUTTER) / (timeline.box["width"] - GUTTER)
    assert u0 + share * (u1 - u0) == pytest.approx(t0 + share * (t1 - t0), abs=0.03 * (t1 - t0))
    assert address(timeline, "s0", "slice") == [None, None]


def test_a_finger_that_rests_selects_what_it_is_drawn_over(timeline):
    t0, t1 = timeline.page.evaluate("tachograph.info().then((i) => [0, i.end_ns])")
    x, y = timeline.box["x"] + 400, timeline.box["y"] + 150
    timeline.fingers.slide([(x, y)], [(x + 300, y)], rest_ms=600)
    timeline.page.wait_for_selector("#aggregate-table")
    s0, s1 = address(timeline, "s0", "s1")
    per_px = (t1 - t0) / (timeline.box["width"] - GUTTER)
    assert s0 == pytest.approx(t0 + (400 - GUTTER) * per_px, abs=12 * per_px)
    assert s1 - s0 == pytest.approx(300 * per_px, abs=12 * per_px)
    assert address(timeline, "t0") in ([None], [t0])


def test_a_second_finger_drops_the_selection(timeline):
    x, y = timeline.box["x"] + 400, timeline.box["y"] + 150
    timeline.fingers.send("touchStart", (x, y))
    timeline.page.wait_for_timeout(600)
    timeline.fingers.send("touchMove", (x + 40, y))
    timeline.fingers.send("touchStart", (x + 40, y), (x + 140, y))
    timeline.fingers.send("touchMove", (x + 40, y), (x + 190, y))
    timeline.fingers.send("touchEnd")
    assert address(timeline, "s0") == [None]
    assert timeline.page.locator("#aggregate-table").count() == 0


def test_a_tap_chooses(timeline):
    place = timeline.page.evaluate(
        """async () => {
          const s = await tachograph.server.call("slice", {trace: 0, slice: 0});
          return {end: (await tachograph.info()).end_ns, at: s.start_ns + s.dur_ns / 2};
        }"""
    )
    x = timeline.box["x"] + GUTTER + place["at"] / place["end"] * (timeline.box["width"] - GUTTER)
    for y in range(60, 300, 20):
        timeline.fingers.send("touchStart", (x, timeline.box["y"] + y))
        timeline.fingers.send("touchEnd")
        timeline.page.wait_for_timeout(100)
        if timeline.page.locator(".details h3").count():
            break
    assert timeline.page.inner_text(".details h3")
    assert address(timeline, "s0") == [None]


def test_fingers_widen_a_flame_graph(view, traces, open_page):
    """Widened twice around the middle m, what stood at m + d/2 stands at m + d."""
    p = open_page(view(traces / "python_stacks.json").url, touch=True).go("#/stacks")
    canvas, path = p.page.locator("#stacks-flame canvas"), p.page.locator("#stacks-flame .muted")
    canvas.scroll_into_view_if_needed()
    box, fingers = canvas.bounding_box(), Fingers(p.page)
    middle, m = box["x"] + box["width"] / 2, box["width"] / 2

    def name_at(x, y):
        """What a tap zooms to there; Escape goes out again."""
        fingers.send("touchStart", (box["x"] + x, box["y"] + y))
        fingers.send("touchEnd")
        p.page.wait_for_timeout(50)
        return path.inner_text().split(" – ")[0]

    def out():
        canvas.focus()
        while path.inner_text():
            p.page.keyboard.press("Escape")

    def find():
        for y in range(30, int(box["height"]), 20):
            for d in (-300, -200, 200, 300):
                names = []
                for x in (m + d / 2, m + d):
                    names.append(name_at(x, y))
                    out()
                if names[0] and names[0] != names[1]:
                    return d, y, names[0]
        raise AssertionError("all rows of the graph have one box")

    d, y, name = find()
    across = box["y"] + 30
    fingers.slide([(middle - 60, across), (middle + 60, across)], [(middle - 120, across), (middle + 120, across)])
    assert name_at(m + d, y) == name
    assert p.errors == []
