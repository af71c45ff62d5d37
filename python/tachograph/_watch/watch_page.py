"""How the figures of a watched program look: a page of lines, or one line. Text from the program is shown without
control characters, and no line is wider than the terminal."""

from __future__ import annotations

import math
import os
import textwrap
from typing import Any

BAR = 20
BUSY_PCT = 5  # of the time without a core: less is no reason for what is shown
NAME = 12  # columns of the names on the left


def clean(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def ms(value: float) -> str:
    """0.123 ms, 12.3 ms, 1.23 s"""
    return f"{_digits(value)} ms" if value < 1000 else f"{_digits(value / 1000)} s"


def _digits(value: float) -> str:
    """Three of them."""
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}" if value > 0 else "0.00"


def size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{_digits(count)} {unit}" if unit != "B" else f"{count:.0f} B"
        count /= 1000
    return f"{_digits(count)} TB"


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def fit(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def fit_end(text: str, width: int) -> str:
    """The end of a path says more than its begin."""
    return text if len(text) <= width else "…" + text[len(text) - max(width - 1, 0) :]


def short_place(row: dict[str, Any]) -> str:
    file = clean(row["file"])
    here = os.getcwd() + os.sep
    file = file[len(here) :] if file.startswith(here) else file
    return "/".join(file.split("/")[-3:]) + f"({row['line']}): {clean(row['function'])}"


def _row(name: str, text: str) -> str:
    return f"{name:<{NAME}}{text}"


def _head(f: dict[str, Any], width: int) -> list[str]:
    versions = f"Python {clean(f['python'])}, " + (f"torch {clean(f['torch'])}" if f["torch"] else "no torch")
    title = f"tachograph watch {f['pid']}   {versions}   for {clock(f['watched_s'])}"
    lines = [title, clean(f["command"])]
    if f["silent_s"]:
        lines.append(
            f"no news for {f['silent_s']:.0f} s: one call holds the lock of the interpreter; the figures are older"
        )
    return [*(fit(line, width) for line in lines), ""]


def _steps(steps: dict[str, Any]) -> list[str]:
    if "median_ms" not in steps:
        return [_row("step", f"not known: {clean(steps['why'])}")]
    rate = f"   {steps['per_s']:.3g}/s" if steps["per_s"] is not None else ""
    lines = [
        _row(
            "step", f"last {ms(steps['last_ms'])}   median {ms(steps['median_ms'])}   p99 {ms(steps['p99_ms'])}{rate}"
        ),
        _row("", f"{steps['of']:,} of {steps['count']:,} steps, the last minute ({clean(steps['source'])})"),
    ]
    return lines + ([_row("", f"no more steps: {clean(steps['why'])}")] if steps["why"] else [])


def _parts(parts: dict[str, Any], bar: str) -> list[str]:
    if not parts.get("rows"):
        return [_row("parts", f"not known: {clean(parts['why'])}")] if parts.get("why") else []
    lines = []
    for row in parts["rows"]:
        length = round(BAR * row["share_pct"] / 100)
        text = f"{ms(row['ms']):>9} {row['share_pct']:5.1f} %  {bar * length}"
        lines.append(_row(f"  {row['part']}", text))
    lines.append(_row("", f"mean of {parts['of']:,} recorded steps; other: Python, and waiting"))
    return lines


def _device(f: dict[str, Any]) -> list[str]:
    busy = f["parts"].get("device_busy_pct")
    lines = []
    if busy is not None:
        waits = ms(f["parts"]["device_wait_ms"])
        lines.append(_row("device", f"busy in {busy:.1f} % of the recorded steps, which wait {waits} each for it"))
    for device in f["memory"]["devices"]:
        lines.append(
            _row(
                f"  GPU {device['index']}",
                f"{size(device['allocated'])} allocated by torch, {size(device['peak'])} at the peak, "
                f"{size(device['reserved'])} reserved",
            )
        )
    return lines or [_row("device", "the program uses none" if f["torch"] else "not known without torch")]


def _memory(memory: dict[str, Any]) -> list[str]:
    if "VmRSS" not in memory:
        return [_row("memory", "not known: /proc has no status of the process")]
    return [_row("memory", f"{size(memory['VmRSS'])} resident, {size(memory.get('VmHWM', 0))} at the peak")]


def _lines(lines: dict[str, Any], width: int) -> list[str]:
    if not lines["rows"]:
        return [_row("lines", f"not known: {clean(lines['why'])}")]
    rows = [_row("lines", f"of {clean(lines['thread'])}, {lines['looks']:,} looks in 10 s, waiting included")]
    for row in lines["rows"]:
        rows.append(f"  {row['share_pct']:5.1f} %  {fit_end(short_place(row), width - 11)}")
    if lines["no_core_pct"] is not None and lines["no_core_pct"] >= BUSY_PCT:
        rows.insert(1, _row("", f"it had no core for {lines['no_core_pct']:.0f} % of the time: others use the machine"))
    if lines["missed"]:
        rows.append(f"  {100 * lines['missed'] / lines['looks']:5.1f} %  no stack was to be had")
    return rows


def _price(price: dict[str, Any]) -> list[str]:
    threads = price["threads_pct"]
    own = f"its threads use {threads:.1f} % of a core" if threads is not None else "its threads: not known yet"
    if "pct" not in price:
        return [_row("price", own), _row("", f"of recording: not known: {price['why']}")]
    interval = f"95 %: {price['low_pct']:+.1f} to {price['high_pct']:+.1f}"
    recording = f"{price['pct']:+.1f} % CPU of a recorded step ({interval}), half are recorded"
    if price["pct"] <= 0:  # recording makes no step shorter
        recording = f"of recording: less than the noise ({interval} % CPU of a recorded step)"
    return [_row("price", own), _row("", recording)]


def page(f: dict[str, Any], width: int = 80, bar: str = "█") -> list[str]:
    """All of it."""
    body = [
        *_steps(f["steps"]),
        *_parts(f["parts"], bar),
        "",
        *_device(f),
        *_memory(f["memory"]),
        "",
        *_lines(f["lines"], width),
        "",
        *_price(f["price"]),
    ]
    return _head(f, width) + [part for line in body for part in _wrap(line, width)]


def _wrap(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, max(width, 2 * NAME), subsequent_indent=" " * NAME) if len(line) > width else [line]


def one_line(f: dict[str, Any]) -> str:
    """What matters most of it, where there is no terminal."""
    steps, said = f["steps"], [f["time"]]
    if "median_ms" in steps:
        rate = f" {steps['per_s']:.3g}/s" if steps["per_s"] is not None else ""
        said.append(f"step {ms(steps['last_ms'])} median {ms(steps['median_ms'])} p99 {ms(steps['p99_ms'])}{rate}")
    else:
        said.append(f"no steps: {clean(steps['why'])}")
    parts = [f"{row['part']} {row['share_pct']:.0f} %" for row in f["parts"].get("rows", []) if row["share_pct"] >= 0.5]
    if parts:
        said.append(", ".join(parts))
    if f["parts"].get("device_busy_pct") is not None:
        said.append(f"device busy {f['parts']['device_busy_pct']:.0f} %")
    if "VmRSS" in f["memory"]:
        said.append(size(f["memory"]["VmRSS"]))
    said += [f"GPU {d['index']} {size(d['allocated'])}" for d in f["memory"]["devices"]]
    if f["lines"]["rows"]:
        first = f["lines"]["rows"][0]
        said.append(f"{first['share_pct']:.0f} % {short_place(first)}")
        if (first_wait := f["lines"]["no_core_pct"] or 0) >= BUSY_PCT:
            said.append(f"no core {first_wait:.0f} %")
    if f["silent_s"]:
        said.append(f"no news for {f['silent_s']:.0f} s")
    return "   ".join(said)
