"""The logger that notebooks write to, and HtaConfig: settings from JSON files."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from .default_values import DEFAULT_CONFIG_FILENAME

logger = logging.getLogger("tachograph.hta")


def setup_logger(config_file: str = "logging.config") -> None:
    """Messages of the logger to standard error."""
    logging.basicConfig(level=logging.INFO)


class HtaConfig:
    """Settings of the default files that are there, then of config_file_path; what comes later holds."""

    def __init__(self, config_file_path: str | None = None, load_default_paths: bool | None = True) -> None:
        self.config_file_paths = [
            *(self.get_default_paths() if load_default_paths else ()),
            *([config_file_path] if config_file_path else ()),
        ]
        self.config: dict[str, Any] = {}
        for path in self.config_file_paths:
            if Path(path).exists():
                self.config.update(json.loads(Path(path).read_text(encoding="utf-8")))

    @staticmethod
    def get_default_paths() -> list[str]:
        return [str(Path.home() / ".hta" / DEFAULT_CONFIG_FILENAME), str(Path.cwd() / DEFAULT_CONFIG_FILENAME)]

    @staticmethod
    def get_test_data_path(dataset: str) -> str:
        """Where HTA's checkout keeps its sample traces, seen from the current folder."""
        return str(Path.cwd() / "tests" / "data" / dataset)

    def get_config_file_paths(self) -> list[str]:
        return self.config_file_paths

    def get_config(self, dot_path: str | None = None, default_value: Any = None) -> Any:
        """The setting at a path such as "a.b"; all of them without one."""
        value: Any = self.config
        for part in dot_path.split(".") if dot_path else ():
            if not isinstance(value, dict) or part not in value:
                return default_value
            value = value[part]
        return value

    def show(self) -> None:
        print(json.dumps(self.config, indent=2))
