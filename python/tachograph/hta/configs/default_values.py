"""Specifications of the args that may become columns."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

DEFAULT_TRACE_DIR = "/tmp/trace"
DEFAULT_CONFIG_FILENAME = "trace_analyzer.json"


class ValueType(Enum):
    Int = 1
    Float = 2
    String = 3
    Object = 4


class YamlVersion(NamedTuple):
    major: int
    minor: int
    patch: int

    def get_version_str(self) -> str:
        return ".".join(map(str, self))

    @staticmethod
    def from_string(version: str) -> YamlVersion:
        return YamlVersion(*map(int, version.split(".")))


class AttributeSpec(NamedTuple):
    """A column: its name, the key in an event's args, its type, and what stands where the event has none."""

    name: str
    raw_name: str
    value_type: ValueType
    default_value: Any
    min_supported_version: YamlVersion = YamlVersion(1, 0, 0)
