"""The tools, as the package `mcp` serves them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from .. import __version__
from . import tools as own
from .tools import Compared, Finding, Opened, Page, Traces, WhatIf

INSTRUCTIONS = (
    "Answers about recorded runs of PyTorch programs. Begin with open(path), then findings(path) for what to change "
    "first and what_if(path) for what it saves; ask(path, question) has the numbers behind it, questions() lists what "
    "can be asked. Times are ns. Answers are pages: go on with offset=next_offset."
)


def make_server(traces: Traces) -> MCPServer:
    """All file access goes through `traces`, which knows the roots."""
    # A refused call is answered; at the level INFO it is four lines of the server's log besides.
    server = MCPServer("tachograph", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")

    def tool(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except (own.Refused, OSError) as error:
                raise ToolError(str(error)) from None

        server.tool()(guarded)
        return guarded

    @tool
    def files(folder: str = "", limit: int = 100) -> list[dict[str, Any]]:
        """Files that may be traces, and folders, below a root: path, whether it is a folder, bytes."""
        return traces.files(folder, limit)

    @tool
    def open(path: str) -> Opened:
        """Open a trace file or a folder of ranks: how many ranks, steps and events, its length, what was lost."""
        return traces.opened(path)

    @tool
    def questions(name: str = "") -> list[dict[str, Any]]:
        """What can be asked: all questions in a line each; with a name its arguments and columns."""
        return own.questions_page(name)

    @tool
    def ask(
        path: str, question: str, arguments: dict[str, str] | None = None, limit: int = 20, offset: int = 0
    ) -> Page:
        """Answer a question about a trace. arguments: of the question, such as {"by": "shape", "where": "calls > 10",
        "sort": "self_cpu_ns desc", "step": "5:8"}."""
        return traces.ask(path, question, arguments or {}, limit, offset)

    @tool
    def findings(path: str, limit: int = 5) -> list[Finding]:
        """What to change first: cause, evidence, advice, cost and saving a step. An empty list: nothing found."""
        return traces.findings(path, limit)

    @tool
    def explain(term: str) -> list[dict[str, Any]]:
        """What the name of a question, an argument or a column means, and its unit."""
        return own.explain(term)

    @tool
    def diff(
        a: str, b: str, by: str = "all", fail_if: list[str] | None = None, limit: int = 20, offset: int = 0
    ) -> Compared:
        """Compare trace b with trace a. by: step, category, op, module, kernel, family, memory or all. fail_if: such as
        "step.p50 > +5%"; those that hold come back as sentences in failed."""
        return traces.diff(a, b, by, fail_if or [], limit, offset)

    @tool
    def what_if(path: str) -> WhatIf:
        """How long a step would take if a finding were mended, one at a time, and how the estimate was made."""
        return traces.what_if(path)

    return server
