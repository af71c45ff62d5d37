"""TraceAnalysis: HolisticTraceAnalysis' calls, each a view of one question of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Flag
from typing import Any

from . import _overlay, _plots
from .analyzers import (
    breakdown_analysis,
    communication_analysis,
    critical_path_analysis,
    cuda_kernel_analysis,
    cupti_counter_analysis,
    straggler_analysis,
    trace_counters,
)
from .common.constants import CUDA_MAX_LAUNCH_QUEUE_PER_STREAM
from .common.trace import Trace
from .configs.default_values import DEFAULT_TRACE_DIR

Instance = int | tuple[int, int] | None


class TimeSeriesTypes(Flag):
    """What generate_trace_with_counters adds; joined by |."""

    QUEUE_LENGTH = 1
    MEMCPY_BANDWIDTH = 2


class TraceAnalysis:
    """trace_files: {rank: path}, or a list of paths; else every trace in trace_dir. Opening reads all of them; answers
    come when asked for.

    hta_compat: False: every event counts, to the nanosecond, and include_last_profiler_step changes nothing: no step is
    left out. True: the numbers that HTA 0.6.1 prints; of several steps it leaves out the last one unless
    include_last_profiler_step is set. Times are microseconds either way. Where HTA raises an error because a trace
    lacks something, the frame is empty."""

    def __init__(
        self,
        trace_files: list[str] | dict[int, str] | None = None,
        trace_dir: str = DEFAULT_TRACE_DIR,
        include_last_profiler_step: bool | None = False,
        hta_compat: bool = False,
    ) -> None:
        self.hta_compat = hta_compat
        self.t = Trace(
            trace_files,
            trace_dir,
            hta_compat=hta_compat,
            include_last_profiler_step=bool(include_last_profiler_step),
            step_filter=hta_compat,
        )
        self.t.is_parsed = self.t.is_aligned = True

    def _ranks(self, ranks: list[int] | None) -> list[int]:
        return self.t.engine.selected_ranks(ranks)

    # ---- how device time divides ---------------------------------------------------------------------------

    def get_temporal_breakdown(self, visualize: bool = True) -> Any:
        """Idle, compute and non-compute time of each rank's devices, from the first kernel to the end of the last."""
        frame = breakdown_analysis.temporal(self.t)
        if visualize:
            parts = {f"{part}_time_pctg": part for part in ("idle", "compute", "non_compute")}
            _plots.stacked_bars(frame, "rank", parts, "Temporal breakdown across ranks", "%")
        return frame

    def get_gpu_kernel_breakdown(
        self,
        visualize: bool = True,
        duration_ratio: float = 0.8,
        num_kernels: int = 10,
        include_memory_kernels: bool = True,
        image_renderer: str = "",
    ) -> tuple[Any, Any]:
        """Time by kernel type, over all ranks; and per type and rank the kernels that take longest, the rest as
        "others"."""
        types = breakdown_analysis.kernel_types(self.t, include_memory_kernels)
        kernels = breakdown_analysis.kernels(self.t, duration_ratio, num_kernels, include_memory_kernels)
        if visualize:
            _plots.pies(
                [("kernel types", types["kernel_type"].tolist(), types["sum"].tolist())],
                "Kernel types over all ranks",
                image_renderer,
            )
            for kind, of_kind in kernels.groupby("kernel_type", sort=False):
                panels = [
                    (f"rank {rank}", f["name"].tolist(), f["sum (us)"].tolist()) for rank, f in of_kind.groupby("rank")
                ]
                _plots.pies(panels, f"Kernels: {kind}", image_renderer)
        return types, kernels

    def get_comm_comp_overlap(self, visualize: bool = True) -> Any:
        """The share of each rank's communication time in which compute kernels run, too."""
        frame = communication_analysis.overlap(self.t)
        if visualize:
            _plots.bars(frame, "rank", "comp_comm_overlap_pctg", "Communication overlapped by computation (%)")
        return frame

    def get_idle_time_breakdown(
        self,
        ranks: list[int] | None = None,
        streams: list[int] | None = None,
        visualize: bool = True,
        visualize_pctg: bool = True,
        show_idle_interval_stats: bool = False,
        consecutive_kernel_delay: int = 30,
    ) -> tuple[Any, Any | None]:
        """Idle time per stream: waiting for the host, for the kernel before (within consecutive_kernel_delay
        microseconds), or other."""
        frame, intervals = breakdown_analysis.idle(self.t, self._ranks(ranks), streams, consecutive_kernel_delay)
        if visualize:
            value, title = (
                ("idle_time_ratio", "Share of idle time") if visualize_pctg else ("idle_time", "Idle time (µs)")
            )
            _plots.bars(frame, "stream", value, title, color="idle_category", facet="rank")
        return frame, intervals if show_idle_interval_stats else None

    # ---- what goes up and down over time -------------------------------------------------------------------

    def get_queue_length_time_series(self, ranks: list[int] | None = None) -> dict[int, Any]:
        """Per rank, each change of the number of launched kernels that have not begun, by stream."""
        return trace_counters.queue_series(self.t, self._ranks(ranks))

    def get_queue_length_summary(self, ranks: list[int] | None = None) -> Any | None:
        """The same described by rank and stream; None without launches."""
        return trace_counters.queue_summary(self.t, self._ranks(ranks))

    def get_queue_length_summary_from_time_series(self, queue_length_dict: dict[int, Any]) -> Any | None:
        return trace_counters.queue_summary_of(queue_length_dict)

    def get_time_spent_blocked_on_full_queue(
        self, queue_length_dict: dict[int, Any], max_queue_length: int = CUDA_MAX_LAUNCH_QUEUE_PER_STREAM
    ) -> Any:
        """How long each stream's queue was full, a row for each that was."""
        return trace_counters.blocked(self.t, queue_length_dict, max_queue_length)

    def get_memory_bw_time_series(self, ranks: list[int] | None = None) -> dict[int, Any]:
        """Per rank, each change of the bandwidth (GB/s) of copies and memsets, by kind."""
        return trace_counters.bandwidth_series(self.t, self._ranks(ranks))

    def get_memory_bw_summary(self, ranks: list[int] | None = None) -> Any | None:
        """The same described by rank and kind, while it is above zero; None without copies."""
        return trace_counters.bandwidth_summary(self.t, self._ranks(ranks))

    def generate_trace_with_counters(
        self, time_series: Any = None, ranks: list[int] | None = None, output_suffix: str = "_with_counters"
    ) -> None:
        """The trace of each rank once more, with its queue lengths and bandwidths as counters, beside the file it came
        from. time_series: TimeSeriesTypes, or a name that says "queue" or "memory" for one of them; by default both."""
        wanted = str(getattr(time_series, "name", time_series) or "").lower()
        words = [word for word in ("queue", "memory") if not wanted or word[:3] in wanted]
        for rank in self._ranks(ranks):
            path = _overlay.with_suffix(self.t.trace_files[rank], output_suffix)
            if self.hta_compat:
                _overlay.write_with(self.t, rank, path, self._counters(rank, words))
            else:
                _overlay.write_counted(self.t, rank, path, words)

    def _counters(self, rank: int, words: list[str]) -> Iterable[str]:
        """As JSON texts, by HTA's rules: the engine's own writer of counters has the exact ones."""
        zero = self.t.zero_in_file(rank)
        for word, series, as_events in (
            ("queue", self.get_queue_length_time_series, trace_counters.queue_counters),
            ("memory", self.get_memory_bw_time_series, trace_counters.bandwidth_counters),
        ):
            found = series([rank]) if word in words else {}
            if rank in found:
                yield from as_events(found[rank], zero)

    # ---- launches ------------------------------------------------------------------------------------------

    def get_cuda_kernel_launch_stats(
        self,
        ranks: list[int] | None = None,
        runtime_cutoff: int = 50,
        launch_delay_cutoff: int = 100,
        include_memory_events: bool = True,
        visualize: bool = True,
    ) -> dict[int, Any]:
        """Per rank a row a launch: duration of the call, of what it launched, and from the call's end to that start
        (µs). The figures show kernels shorter than their call, calls longer than runtime_cutoff and delays longer than
        launch_delay_cutoff."""
        frames = cuda_kernel_analysis.launches(self.t, self._ranks(ranks), include_memory_events)
        for rank, f in frames.items() if visualize else ():
            short = f[(f["cpu_duration"] <= runtime_cutoff) & (f["gpu_duration"] < f["cpu_duration"])]
            _plots.histogram(short["gpu_duration"], f"Rank {rank}: kernels shorter than their launch call", "µs")
            _plots.histogram(
                f["cpu_duration"][f["cpu_duration"] > runtime_cutoff], f"Rank {rank}: slow launch calls", "µs"
            )
            _plots.histogram(
                f["launch_delay"][f["launch_delay"] > launch_delay_cutoff], f"Rank {rank}: late starts", "µs"
            )
        return frames

    def get_aten_op_kernels_and_delay(
        self, ranks: list[int] | None = None, sort_by: list[str] | None = None
    ) -> dict[int, Any]:
        """Per rank, operators with the kernels they launched, how often, and the mean delays (µs) from operator to
        launch and from launch to kernel."""
        return cuda_kernel_analysis.op_kernels(self.t, self._ranks(ranks), list(sort_by or ["occurrence_count"]))

    def get_frequent_cuda_kernel_sequences(
        self,
        operator_name: str,
        output_dir: str,
        min_pattern_len: int = 3,
        rank: int = 0,
        top_k: int = 5,
        visualize: bool = False,
        compress_other_kernels: bool = True,
    ) -> Any:
        """Which kernels follow one another below operators with this in their name, most frequent first. The trace with
        the top_k of them marked (args.Patterns: the place of the pattern) is written to output_dir as overlaid_<file>;
        compress_other_kernels: without the args of other events."""
        rank = self.t.engine.selected_ranks([rank] if rank in self.t.engine.ranks else None)[0]
        frame = cuda_kernel_analysis.sequences(self.t, rank, operator_name, min_pattern_len)
        if len(frame):
            path = _overlay.beside(output_dir, "overlaid_", self.t.trace_files[rank])
            cuda_kernel_analysis.overlay(
                self.t, rank, path, operator_name, min_pattern_len, top_k, compress_other_kernels
            )
        if visualize:
            _plots.bars(frame.head(top_k), "pattern", "count", f"Kernel sequences below {operator_name}")
        return frame

    # ---- user annotations ----------------------------------------------------------------------------------

    def get_gpu_user_annotation_breakdown(
        self,
        use_gpu_annotation: bool = True,
        visualize: bool = True,
        duration_ratio: float = 0.8,
        num_kernels: int = 1000,
        allowlist_patterns: list[str] | None = None,
        image_renderer: str | None = None,
    ) -> Any | None:
        """Time in user annotations by name and rank, of the device or of the host; None when the trace has none. Names
        that contain one of allowlist_patterns never become "others"."""
        frame = breakdown_analysis.user_annotations(
            self.t, use_gpu_annotation, duration_ratio, num_kernels, list(allowlist_patterns or ())
        )
        if visualize and frame is not None:
            panels = [(f"rank {rank}", f["name"].tolist(), f["sum (us)"].tolist()) for rank, f in frame.groupby("rank")]
            _plots.pies(panels, "User annotations", image_renderer)
        return frame

    def get_gpu_kernels_with_user_annotations(
        self, rank: int, expand_names: bool = True, shorten_names: bool = True, shortern_names: bool | None = None
    ) -> Any | None:
        """The rows of device work with the shortest annotation of their stream that shares time with them; None when
        the trace has no annotations of the device. shortern_names: how releases before 0.6 spell it."""
        shorten = shorten_names if shortern_names is None else shortern_names
        return cuda_kernel_analysis.with_annotations(self.t, self._ranks([rank])[0], expand_names, shorten)

    # ---- steps and ranks -----------------------------------------------------------------------------------

    def get_profiler_steps(self) -> list[int]:
        """Numbers of the steps of all ranks."""
        return self.t.marked_steps()

    # ---- critical path -------------------------------------------------------------------------------------

    def critical_path_analysis(
        self, rank: int, annotation: str, instance_id: Instance, data_load_events: list[str] | None = None
    ) -> Any:
        """(graph, True): the longest chain of work and waiting while an annotation is on; instance_id: which of those
        with the text in its name, or a pair of the first and the last. "" = the whole recording. (graph, False) when
        there is no path, None when nothing has that name."""
        graph = critical_path_analysis.ask(self.t, self._ranks([rank])[0], annotation, instance_id, data_load_events)
        if not graph.found and annotation and not self.t.has_name(rank, annotation):
            return None
        return graph, graph.found

    def overlay_critical_path_analysis(
        self,
        rank: int,
        critical_path_graph: Any,
        output_dir: str,
        only_show_critical_events: bool = True,
        show_all_edges: bool = False,
    ) -> str:
        """Writes overlaid_critical_path_<file> to output_dir: args.critical on the events of the path and an arrow an
        edge."""
        path = _overlay.beside(output_dir, "overlaid_critical_path_", self.t.trace_files[rank])
        return critical_path_analysis.overlay(critical_path_graph, path, only_show_critical_events, show_all_edges)

    def get_potential_stragglers(
        self,
        profiler_steps: list[int] | None = None,
        num_candidates: int = 2,
        visualize: bool = False,
        straggler_identification_impl: Callable[..., Any] | None = None,
    ) -> list[int]:
        """Ranks that hold up the others, at most num_candidates, the worst first. straggler_identification_impl: a
        function of (rows of all ranks, symbol table, number of candidates, visualize) that returns a Series of ranks
        instead."""
        return straggler_analysis.stragglers(self.t, profiler_steps, num_candidates, straggler_identification_impl)

    def get_cupti_counter_data_with_operators(self, ranks: list[int] | None = None) -> list[Any]:
        """A frame for each rank that was recorded with CUPTI counters: the kernels, a column a counter, and the
        operators around the launch."""
        return cupti_counter_analysis.counters(self.t, self._ranks(ranks))
