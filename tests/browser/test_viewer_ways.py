"""Ways from a figure to what is behind it: rows and curves open the timeline or a table; ranks are compared fairly."""

import json

import pytest


def event(cat, name, pid, tid, ts, dur, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def block(ts, address, size):
    args = {"Device Type": 0, "Device Id": -1, "Addr": address, "Bytes": size}
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": 1,
        "tid": 1,
        "ts": ts,
        "s": "t",
        "args": args,
    }


@pytest.fixture
def memory_trace(tmp_path):
    """Alive: 1 KiB from 10 us on, 4 KiB from 20 to 60, 2 KiB from 40 to 80."""
    events = [event("cpu_op", f"aten::take{n}", 1, 1, 10 * n + 5, 8) for n in range(1, 9)]
    events += [block(ts, a, b) for ts, a, b in [(10, 1, 1024), (20, 2, 4096), (40, 3, 2048), (60, 2, -4096)]]
    events += [block(80, 3, -2048)]
    path = tmp_path / "memory.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


@pytest.fixture
def ranks(tmp_path):
    """Two ranks of two devices; a step takes 100 us, on rank 1 2 % more, and in step 3 twice as long."""
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in (0, 1):
        events, at = [], 0
        for n in range(6):
            long = (200 if n == 3 else 100) * (1.02 if rank else 1)
            events.append(event("user_annotation", f"ProfilerStep#{n}", 1, 1, at, long))
            events.append(event("cpu_op", "aten::mm", 1, 1, at + 1, 50))
            events += [event("kernel", "gemm", d, 7, at + 5, 60, stream=7, device=d) for d in (0, 1)]
            at += long
        info = {"rank": rank, "world_size": 2}
        (folder / f"rank{rank}.json").write_text(json.dumps({"distributedInfo": info, "traceEvents": events}))
    return folder


@pytest.mark.brief
def test_a_click_on_the_memory_curve_shows_what_was_alive(memory_trace, view, open_page, until):
    p = open_page(view(memory_trace).url).go("#/memory")
    svg = p.page.locator("#memory-area-0 svg").bounding_box()
    for after_us, alive, since in ((45, [1, 2, 4], 30), (55, [1, 2], 50), (5, [1], 0)):  # after the first change
        p.page.mouse.click(svg["x"] + 64 + (svg["width"] - 68) * after_us / 70, svg["y"] + 40)
        title = f"{sum(alive)} KiB alive at {since} " + ("us" if since else "ns")
        until(p.page, f"document.querySelector('#memory-curve').textContent.includes({json.dumps(title)})")
        p.page.wait_for_selector("#memory-alive")
        heads = [
            text.split(",")[0]
            for text in p.page.locator("#memory-alive thead tr").first.locator("th").all_inner_texts()
        ]
        cells = [row.locator("td").all_inner_texts() for row in p.page.locator("#memory-alive tbody tr").all()]
        assert sorted(float(row[heads.index("bytes")]) for row in cells) == alive
    p.page.mouse.click(svg["x"] + 64 + (svg["width"] - 68) * 45 / 70, svg["y"] + 40)
    until(p.page, "document.querySelectorAll('#memory-alive tbody tr').length === 3")
    p.page.locator("#memory-alive tbody tr").first.click()
    p.page.wait_for_selector(".timeline .rows")
    assert p.page.input_value("#find").startswith("aten::take") and p.errors == []


def test_rows_of_memory_and_ranks_open_the_timeline(memory_trace, ranks, view, open_page, until):
    p = open_page(view(memory_trace).url).go("#/memory")
    p.page.locator("#memory-ops tbody tr").first.click()
    p.page.wait_for_selector(".timeline .rows")
    q = open_page(view(ranks).url).go("#/ranks")
    q.page.locator("#ranks-table tbody tr").nth(1).click()
    q.page.wait_for_selector(".timeline .rows")
    assert "rank=1" in q.page.url
    until(q.page, "tachograph.shared !== undefined && document.querySelector('.timeline .rows').scrollTop >= 0")
    assert p.errors == q.errors == []


def test_noise_is_faint_on_the_heat_map_and_an_outlier_is_not(ranks, view, open_page):
    p = open_page(view(ranks).url).go("#/ranks")
    cells = p.page.evaluate(
        "[...document.querySelectorAll('#ranks-heat svg > rect')].map((r) => Number(r.getAttribute('fill-opacity')))"
    )
    assert len(cells) == 12
    usual = [cell for i, cell in enumerate(cells) if i % 6 != 3]
    assert max(usual) - min(usual) < 0.1 and min(cells[3], cells[9]) > 0.9  # 2 % against 100 %


def test_devices_of_several_ranks_are_told_apart(ranks, view, open_page):
    p = open_page(view(ranks).url).go("#/overview")
    named = p.page.locator("#devices td.first").all_inner_texts()
    assert named == ["rank 0 · device 0", "rank 0 · device 1", "rank 1 · device 0", "rank 1 · device 1"]


def test_a_finding_shows_its_threshold_and_leads_to_its_table(traces, view, open_page, tachograph):
    answer = json.loads(tachograph("ask", traces / "gpu_training.json", "findings", "--json").stdout)
    names = [c["name"] for c in answer["columns"]]
    known = [dict(zip(names, row, strict=True)) for row in answer["rows"]]
    with_threshold = [row for row in known if row["threshold_pct"] is not None]
    p = open_page(view(traces / "gpu_training.json").url).go("#/findings")
    text = p.page.inner_text("#findings")
    assert known and all(f"fires above {row['threshold_pct']:.1f} %" in text for row in with_threshold)
    p.page.get_by_role("link", name="as a table").first.click()
    p.page.wait_for_selector("#ask-table")
    assert p.page.locator("#ask-table tbody tr").count() == len(known)


def test_waits_that_are_not_to_be_trusted_are_no_headline(tmp_path, view, open_page, tachograph):
    """The second collective begins on rank 1 long after its end on rank 0: no clock explains that beside the first."""
    folder = tmp_path / "astray"
    folder.mkdir()
    for rank, starts in ((0, (0, 100)), (1, (0, 500))):
        name, info = "ncclDevKernel_AllReduce_Sum_f32_RING_LL", {"rank": rank, "world_size": 2}
        events = [event("kernel", name, 0, 7, at, 10, stream=7, device=0) for at in starts]
        events += [event("user_annotation", f"ProfilerStep#{n}", 1, 1, 400 * n, 400) for n in range(2)]
        (folder / f"rank{rank}.json").write_text(json.dumps({"distributedInfo": info, "traceEvents": events}))
    note = "waits are not to be trusted"
    assert note in tachograph("ask", folder, "ranks").stdout
    p = open_page(view(folder).url).go("#/overview")
    shown = p.page.inner_text("#ranks-short")
    assert note in shown and "waits " not in shown.replace(note, "") and "costs" not in shown
    p.page.evaluate("location.hash = '#/ranks'")
    p.page.wait_for_selector("#stragglers-table")
    p.ready()
    assert note in p.page.inner_text(".doubt") and "costs the others" not in p.page.inner_text("#page")
