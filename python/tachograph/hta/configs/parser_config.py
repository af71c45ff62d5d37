"""ParserConfig: which args of events are columns of the frames that a Trace makes."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from enum import Enum
from typing import Any

from .default_values import AttributeSpec, ValueType, YamlVersion

DEFAULT_PARSE_VERSION = YamlVersion(1, 0, 0)


class ParserBackend(str, Enum):
    """Which parser HTA is to use: here there is one, whichever is named."""

    JSON = "json"
    IJSON = "ijson"
    IJSON_BATCHED = "ijson_batched"
    IJSON_BATCH_AND_COMPRESS = "ijson_batch_and_compress"


class TraceType(str, Enum):
    Training = "training"
    TrainingWoProfilerstepAnnot = "training_wo_profilerstep_annot"
    Inference = "inference"


# Group, name there, column, key in args, type, what stands where there is none.
_KNOWN = (
    ("index", "ev_idx", "ev_idx", "Ev Idx", "Int", -1),
    ("index", "external_id", "external_id", "External id", "Int", -1),
    ("index", "python_id", "python_id", "Python id", "Int", -1),
    ("index", "python_parent_id", "python_parent_id", "Python parent id", "Int", -1),
    ("cpu_op", "concrete_inputs", "concrete_inputs", "Concrete Inputs", "Object", "[]"),
    ("cpu_op", "fwd_thread", "fwd_thread_id", "Fwd thread id", "Int", -1),
    ("cpu_op", "input_dims", "input_dims", "Input Dims", "Object", "-1"),
    ("cpu_op", "input_type", "input_type", "Input type", "Object", "-1"),
    ("cpu_op", "input_strides", "input_strides", "Input Strides", "Object", "-1"),
    ("cpu_op", "sequence_number", "sequence", "Sequence number", "Int", -1),
    ("cpu_op", "kernel_backend", "kernel_backend", "kernel_backend", "String", ""),
    ("cpu_op", "kernel_hash", "kernel_hash", "kernel_hash", "String", ""),
    ("correlation", "cbid", "cbid", "cbid", "Int", -1),
    ("correlation", "cpu_gpu", "correlation", "correlation", "Int", -1),
    ("sm", "blocks", "blocks_per_sm", "blocks per SM", "Object", "[]"),
    ("sm", "occupancy", "est_occupancy", "est. achieved occupancy %", "Int", -1),
    ("sm", "warps", "warps_per_sm", "warps per SM", "Float", 0.0),
    ("data", "bytes", "bytes", "bytes", "Int", -1),
    ("data", "bandwidth", "memory_bw_gbps", "memory bandwidth (GB/s)", "Float", 0.0),
    ("cuda", "context", "context", "context", "Int", -1),
    ("cuda", "device", "device", "device", "Int", -1),
    ("cuda", "stream", "stream", "stream", "Int", -1),
    ("kernel", "queued", "queued", "queued", "Int", -1),
    ("kernel", "shared_memory", "shared_memory", "shared memory", "Int", -1),
    ("threads", "block", "block", "block", "Object", "[]"),
    ("threads", "grid", "grid", "grid", "Object", "[]"),
    ("threads", "registers", "registers_per_thread", "registers per thread", "Int", -1),
    ("cuda_sync", "stream", "wait_on_stream", "wait_on_stream", "Int", -1),
    ("cuda_sync", "event", "wait_on_cuda_event_record_corr_id", "wait_on_cuda_event_record_corr_id", "Int", -1),
    ("info", "finished", "finished", "finished", "String", ""),
    ("info", "labels", "labels", "labels", "String", ""),
    ("info", "name", "name", "name", "Int", -1),
    ("info", "op_count", "op_count", "Op count", "Int", -1),
    ("info", "sort_index", "sort_index", "sort_index", "Int", -1),
    ("nccl", "collective_name", "collective_name", "Collective name", "String", ""),
    ("nccl", "in_msg_nelems", "in_msg_nelems", "In msg nelems", "Int", 0),
    ("nccl", "out_msg_nelems", "out_msg_nelems", "Out msg nelems", "Int", 0),
    ("nccl", "in_msg_size", "in_msg_size", "In msg size", "Int", 0),
    ("nccl", "out_msg_size", "out_msg_size", "Out msg size", "Int", 0),
    ("nccl", "group_size", "group_size", "Group size", "Int", -1),
    ("nccl", "dtype", "msg_dtype", "dtype", "String", ""),
    ("nccl", "in_split_size", "in_split_size", "In split size", "String", "[]"),
    ("nccl", "out_split_size", "out_split_size", "Out split size", "String", "[]"),
    ("nccl", "input_tensors_start", "input_tensors_start", "Input Tensors start", "String", "[]"),
    ("nccl", "output_tensors_start", "output_tensors_start", "Output Tensors start", "String", "[]"),
    ("nccl", "process_group_name", "process_group_name", "Process Group Name", "String", ""),
    ("nccl", "process_group_desc", "process_group_desc", "Process Group Description", "String", ""),
    ("nccl", "process_group_ranks", "process_group_ranks", "Process Group Ranks", "String", "[]"),
    ("nccl", "seq", "seq", "Seq", "Int", -1),
    ("nccl", "rank", "process_rank", "Rank", "Int", -1),
    ("inference", "batch_size", "batch_size", "batchSize", "Int", -1),
    ("inference", "batch_id", "batch_id", "batchId", "String", ""),
)
AVAILABLE_ARGS = {
    f"{group}::{name}": AttributeSpec(column, key, ValueType[kind], default)
    for group, name, column, key, kind, default in _KNOWN
}


def _specs(*names: str) -> list[AttributeSpec]:
    return [AVAILABLE_ARGS[name] for name in names]


class ParserConfig:
    """args: the columns. Set before a Trace is made, as its parser_config or, by set_default_cfg, for all that are
    given none."""

    ARGS_INPUT_SHAPE = _specs("cpu_op::input_dims", "cpu_op::input_type", "cpu_op::input_strides")
    ARGS_BANDWIDTH = _specs("data::bytes", "data::bandwidth")
    ARGS_SYNC = _specs("cuda_sync::stream", "cuda_sync::event")
    ARGS_MINIMUM = _specs("cuda::stream", "correlation::cpu_gpu")
    ARGS_COMPLETE = [spec for name, spec in AVAILABLE_ARGS.items() if not name.startswith("info::")]
    ARGS_INFO = _specs("info::labels", "info::name", "info::sort_index")
    ARGS_COMMUNICATION = _specs(
        *(
            f"nccl::{name}"
            for name in (
                "collective_name",
                "in_msg_nelems",
                "out_msg_nelems",
                "dtype",
                "group_size",
                "rank",
                "in_split_size",
                "out_split_size",
            )
        )
    )
    ARGS_TRITON_KERNELS = _specs("cpu_op::kernel_backend", "cpu_op::kernel_hash")
    ARGS_DEFAULT = [
        *ARGS_MINIMUM,
        *ARGS_BANDWIDTH,
        *ARGS_SYNC,
        *ARGS_INPUT_SHAPE,
        *_specs("index::external_id", "index::python_id", "index::python_parent_id"),
        *ARGS_COMMUNICATION,
    ]
    DEFAULT_MIN_REQUIRED_COLS = ["ts", "dur", "name", "cat", "pid", "tid"]

    def __init__(
        self,
        args: list[AttributeSpec] | None = None,
        user_provide_trace_type: TraceType | None = None,
        version: YamlVersion = DEFAULT_PARSE_VERSION,
        parse_all_args: bool = False,
        selected_arg_keys: list[str] | None = None,
        skip_event_types: set[str] | None = None,
    ) -> None:
        self.args = list(args) if args else list(self.ARGS_DEFAULT)
        self.user_provide_trace_type, self.version = user_provide_trace_type, version
        self.parse_all_args, self.selected_arg_keys = parse_all_args, selected_arg_keys
        self.skip_event_types = skip_event_types
        self.parser_backend: ParserBackend | None = None
        self.trace_memory, self.drop_gpu_user_annotation = False, True
        self.min_required_cols = list(self.DEFAULT_MIN_REQUIRED_COLS)

    def clone(self) -> ParserConfig:
        return copy.deepcopy(self)

    @classmethod
    def get_default_cfg(cls) -> ParserConfig:
        return _default[0].clone()

    @classmethod
    def set_default_cfg(cls, cfg: ParserConfig) -> None:
        _default[0] = cfg.clone()

    @classmethod
    def get_versioned_cfg(cls, version: YamlVersion) -> ParserConfig:
        return cls(version=version)

    @classmethod
    def get_minimum_args(cls, version: YamlVersion = DEFAULT_PARSE_VERSION) -> list[AttributeSpec]:
        return list(cls.ARGS_MINIMUM)

    @classmethod
    def get_default_args(cls, version: YamlVersion = DEFAULT_PARSE_VERSION) -> list[AttributeSpec]:
        return list(cls.ARGS_DEFAULT)

    @classmethod
    def get_info_args(cls, version: YamlVersion = DEFAULT_PARSE_VERSION) -> list[AttributeSpec]:
        return list(cls.ARGS_INFO)

    @classmethod
    def get_all_available_args(cls) -> dict[str, AttributeSpec]:
        return dict(AVAILABLE_ARGS)

    @classmethod
    def show_available_args(cls) -> None:
        for name, spec in AVAILABLE_ARGS.items():
            print(
                f"{name}: column {spec.name}, key {spec.raw_name!r}, {spec.value_type.name}, {spec.default_value!r} where there is none"
            )

    @classmethod
    def enable_communication_args(
        cls, cfg: ParserConfig | None = None, version: YamlVersion = DEFAULT_PARSE_VERSION
    ) -> ParserConfig:
        cfg = cfg or cls.get_default_cfg()
        cfg.add_args(cls.ARGS_COMMUNICATION)
        return cfg

    @classmethod
    def transform_arg_name(cls, arg: str) -> str:
        """A key as the name of a column."""
        name = re.sub(r"[ \-/.%_]+", "_", re.sub(r"\([^)]*\)", "", arg).lower()).strip("_")
        return "arg_name" if name == "name" else name

    @classmethod
    def make_attribute_spec(
        cls, raw_name: str, value: object, min_supported_version: YamlVersion = DEFAULT_PARSE_VERSION
    ) -> AttributeSpec:
        """The column of a key with a value like this one."""
        for kind, of, default in ((int, ValueType.Int, 0), (float, ValueType.Float, 0.0), (str, ValueType.String, "")):
            if isinstance(value, kind):
                return AttributeSpec(cls.transform_arg_name(raw_name), raw_name, of, default, min_supported_version)
        return AttributeSpec(cls.transform_arg_name(raw_name), raw_name, ValueType.Object, None, min_supported_version)

    def get_args(self) -> list[AttributeSpec]:
        return self.args

    def set_args(self, args: list[AttributeSpec]) -> None:
        self.args = list(args)

    def add_args(self, args: Iterable[AttributeSpec]) -> None:
        """Those that are no columns yet."""
        names = {spec.name for spec in self.args}
        self.args += [spec for spec in dict.fromkeys(args) if spec.name not in names]

    def set_args_selector(self, selected_arg_keys: list[str] | None = None) -> ParserConfig:
        """Only these keys of AVAILABLE_ARGS."""
        self.selected_arg_keys = selected_arg_keys
        if selected_arg_keys:
            self.args = _specs(*selected_arg_keys)
        return self

    def set_parse_all_args(self, parse_all_args: bool) -> ParserConfig:
        """Every key of the trace becomes a column."""
        self.parse_all_args = parse_all_args
        return self

    def set_skip_event_types(self, skip_event_types: set[str] | None = None) -> ParserConfig:
        """Ignored: HTA's JSON parser, which these frames follow, skips none."""
        self.skip_event_types = skip_event_types
        return self

    def set_parser_backend(self, parser_backend: ParserBackend) -> None:
        self.parser_backend = parser_backend

    def set_trace_memory(self, trace_memory: bool) -> None:
        self.trace_memory = trace_memory

    def set_drop_gpu_user_annotation(self, should_drop: bool) -> None:
        self.drop_gpu_user_annotation = should_drop

    def get_min_required_cols(self) -> list[str]:
        return self.min_required_cols

    def set_min_required_cols(self, cols: list[str]) -> None:
        self.min_required_cols = list(cols)

    def set_global_parser_config_version(self, version: YamlVersion) -> None:
        self.version = version


_default = [ParserConfig()]


def columns_of(cfg: ParserConfig | None) -> dict[str, tuple[str, type, Any]]:
    """Column: the key in an event's args, its kind, and what stands where there is none; stream and correlation are
    there anyway."""
    kinds = {ValueType.Int: int, ValueType.Float: float, ValueType.String: str, ValueType.Object: list}
    args = (cfg or _default[0]).args
    return {
        spec.name: (spec.raw_name, kinds[spec.value_type], spec.default_value)
        for spec in args
        if spec.name not in ("stream", "correlation")
    }
