"""`tachograph prove` comes here with the recording: text|json SHARE FILE, and the words of the program."""

from __future__ import annotations

import json
import sys
from statistics import median, stdev
from typing import Any

from .. import TachographError, open as open_trace
from .places import Plan, Refused, plan
from .runs import Comparison, measure

NEAR_PCT = 10  # of the step: a prediction as near holds, and a measurement that is less sure decides nothing
BUSY_PCT = 5  # of the steps without a core: reported from here on
OTHERS_PCT = 20  # of one core, used by others: likewise
OK, OFF, NO_PREDICTION, FAILED = 0, 1, 3, 4  # exit statuses


def rows(asked: Plan, found: Comparison) -> list[dict[str, Any]]:
    table = []
    for place, of_place in zip(asked.places, found.measured, strict=True):
        grown_ns = median(of_place.grown_ns)
        bare_ns = median(of_place.bare_ns)
        delays = median(of_place.delays)
        error_ns = _error_ns(of_place.grown_ns)
        near_ns = NEAR_PCT / 100 * bare_ns
        is_sure = error_ns <= near_ns
        is_near = delays > 0 and abs(grown_ns - place.predicted_ns) <= near_ns
        table.append(
            {
                "where": place.where,
                "name": place.name,
                "calls_per_step": place.calls,
                "delayed_per_step": delays,
                "delay_ns": place.delay_ns,
                "predicted_ns": place.predicted_ns,
                "predicted_low_ns": place.low_ns,
                "predicted_high_ns": place.high_ns,
                "measured_ns": round(grown_ns),
                "measured_low_ns": round(min(of_place.grown_ns)),
                "measured_high_ns": round(max(of_place.grown_ns)),
                "measured_error_ns": round(error_ns),
                "comparisons": len(of_place.grown_ns),
                "step_ns": round(bare_ns),
                "core_wait_pct": 100 * sum(of_place.waited) / len(of_place.waited),
                "error_pct": 100 * (grown_ns - place.predicted_ns) / bare_ns,
                "holds": is_near if is_sure else None,
            }
        )
    return table


def _error_ns(values: list[float]) -> float:
    """Two standard errors of the median, 1.2533 sigma / sqrt(n) each for values that are spread normally."""
    return float(2 * 1.2533 * stdev(values) / len(values) ** 0.5)


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.3f}" if abs(ns) < 1e6 else f"{ns / 1e6:.2f}"


def others_pct(found: Comparison) -> int | None:
    return round(median(found.others_pct)) if found.others_pct else None


def page(asked: Plan, table: list[dict[str, Any]], share: str, others: int | None) -> str:
    head = ("where", "begins later", "delays of a step", "predicted", "measured", "off by")
    cells = [head]
    for row in table:
        cells.append(
            (
                row["where"],
                row["name"],
                f"{row['calls_per_step']:g} x {_ms(row['delay_ns'])} ms"
                + ("" if row["delayed_per_step"] else ", none came"),
                f"{_ms(row['predicted_ns'])} ms",
                f"{_ms(row['measured_ns'])} ms ({_ms(row['measured_low_ns'])} to {_ms(row['measured_high_ns'])})",
                f"{row['error_pct']:+.1f} % of the step" if row["holds"] is not None else "not decided",
            )
        )
    widths = [max(len(line[k]) for line in cells) for k in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    bare_ns = median(row["step_ns"] for row in table)
    first = f"step {_ms(asked.step_ns)} ms as recorded, {_ms(bare_ns)} ms without a delay; delays are {share} % of it"
    sure = [row for row in table if row["holds"] is not None]
    held = f"{sum(row['holds'] for row in sure)} of {len(sure)} predictions within {NEAR_PCT} % of the step"
    last = [held] if sure else []
    last += [
        f"not decided {row['where']}: the steps of the program differ so much that {row['comparisons']} comparisons are sure "
        f"to {100 * row['measured_error_ns'] / row['step_ns']:.0f} % of a step only"
        for row in table
        if row["holds"] is None
    ]
    busy_pct = max(row["core_wait_pct"] for row in table)
    if busy_pct > BUSY_PCT:
        last.append(
            f"other programs kept the machine busy: up to {busy_pct:.0f} % of the steps had no core; it is left out"
        )
    if others is not None and others > OTHERS_PCT:
        last.append(
            f"other programs used {others} % of a core meanwhile: a step that computes on several threads is longer by "
            "what it waits for them, and that is not left out"
        )
    last += [f"nothing {where}: the program has no such operator in each of its steps" for where in asked.missing]
    return "\n".join([first, "", *lines, "", *last])


def main() -> int:
    form, share, path, *argv = sys.argv[1:]

    def say(line: str) -> None:
        print(f"tachograph prove: {line}", file=sys.stderr, flush=True)

    try:
        asked = plan(open_trace(path, progress=False), float(share))
        found = measure(argv, asked, say)
        table, others = rows(asked, found), others_pct(found)
    except Refused as error:
        say(str(error))
        return NO_PREDICTION
    except (TachographError, OSError) as error:
        say(str(error))
        return FAILED
    except KeyboardInterrupt:
        return 130
    if form == "json":
        answer = {"step_ns": asked.step_ns, "places": table, "missing": asked.missing, "recording": path}
        print(json.dumps({**answer, "others_pct": others}))
    else:
        print(page(asked, table, share, others))
    if any(row["holds"] is False for row in table):
        return OFF
    return OK if any(row["holds"] for row in table) else NO_PREDICTION


if __name__ == "__main__":
    sys.exit(main())
