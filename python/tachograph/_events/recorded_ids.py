"""The ids that an export of our recorder's trace writes (src/show/chrome_recorded.c): a recording does not store them,
as they follow from the order of its slices."""

from __future__ import annotations

from typing import Any, NamedTuple

_OPERATIONS = ("cpu_op", "user_annotation")
_FRAME = "python_function"


class Flow(NamedTuple):
    """From a forward operator to its autograd node; type 1 = fwdbwd, as torch numbers them."""

    id: int
    type: int
    start: bool


_NO_FLOW = Flow(0, 0, False)


class RecordedIds:
    """slices: the answer to `events`, one row each in the order of their numbers."""

    def __init__(self, slices: Any) -> None:
        self._categories, self._parents = list(slices["category"]), slices["parent"]
        self._ids: list[int] = []
        seen = {_FRAME: 0, "operation": 0}
        for category in self._categories:
            kind = _FRAME if category == _FRAME else "operation" if category in _OPERATIONS else None
            if kind is not None:
                seen[kind] += 1
            self._ids.append(seen[kind] if kind is not None else 0)
        self._operations = seen["operation"]
        self._flows = self._number_flows(slices["cause"])

    def _number_flows(self, causes: Any) -> dict[int, Flow]:
        """One flow begins at a slice, or ends there."""
        flows: dict[int, Flow] = {}
        count = 0
        for number, cause in enumerate(causes):
            if cause is None or self._categories[number] != "cpu_op" or cause in flows or number in flows:
                continue
            count += 1
            flows[number], flows[cause] = Flow(count, 1, False), Flow(count, 1, True)
        return flows

    def external_id(self, number: int) -> int:
        return self._ids[number] if self._categories[number] != _FRAME else 0

    def python_id(self, number: int) -> int:
        return self._ids[number] if self._categories[number] == _FRAME else -1

    def python_parent_id(self, number: int) -> int:
        """Of the innermost function around it; -1: none."""
        if self._categories[number] != _FRAME:
            return -1
        above = self._parents[number]
        while above is not None and self._categories[above] != _FRAME:
            above = self._parents[above]
        return -1 if above is None else self._ids[above]

    def index(self, number: int) -> int | None:
        """The export's "Ev Idx"; None: it writes none."""
        if self._categories[number] == _FRAME:
            return self._operations + self._ids[number] - 1
        return self._ids[number] - 1 if self._ids[number] else None

    def flow(self, number: int) -> Flow:
        return self._flows.get(number, _NO_FLOW)
