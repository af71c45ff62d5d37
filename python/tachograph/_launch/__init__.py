"""What `tachograph run` puts into the programs it starts.

The program is started as it would be without us, but with `site/` first on PYTHONPATH and one variable, TACHOGRAPH_RUN,
that says where and how to record. site/sitecustomize.py waits for torch; session.py records; steps.py finds the steps.
Nothing of this is loaded in a process that never imports torch."""

from __future__ import annotations

from collections.abc import Callable

listener: Callable[[bool], None] | None = None  # of the session, where there is one


def step(labelled: bool = False) -> None:
    """Say that a step of the program ends here and the next begins. `tachograph run` goes by that; without it this does
    nothing.

    labelled: the step has a ProfilerStep label already."""
    if listener is not None:
        listener(labelled)
