"""The profiler with a schedule: windows one after the other, and what happens with each."""
