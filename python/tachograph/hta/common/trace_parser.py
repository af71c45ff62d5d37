"""What of HTA's parser a notebook may call; there is one parser here, whichever backend is named."""

from __future__ import annotations

from typing import Any

from ..configs.parser_config import ParserBackend, ParserConfig
from .trace_file import read_trace as parse_trace_dict

__all__ = [
    "ParserBackend",
    "get_default_trace_parsing_backend",
    "parse_trace_dataframe",
    "parse_trace_dict",
    "set_default_trace_parsing_backend",
]
_backend = [ParserBackend.JSON]


def set_default_trace_parsing_backend(parser_backend: ParserBackend) -> None:
    _backend[0] = parser_backend


def get_default_trace_parsing_backend() -> ParserBackend:
    return _backend[0]


def parse_trace_dataframe(trace_file_path: str, cfg: ParserConfig | None = None) -> tuple[dict[str, Any], Any, Any]:
    """(members of the file beside its events, frame, symbol table)."""
    from .trace import parse_trace_file

    return parse_trace_file(trace_file_path, cfg)
