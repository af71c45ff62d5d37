"""The peer of `tachograph ask FILE overview`: load one rank with HolisticTraceAnalysis, then its temporal and kernel
breakdown."""

import sys

from hta.trace_analysis import TraceAnalysis

analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
analysis.get_temporal_breakdown(visualize=False)
analysis.get_gpu_kernel_breakdown(visualize=False)
