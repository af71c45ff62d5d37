"""Numbers that notebooks refer to by name."""

CUDA_MAX_LAUNCH_QUEUE_PER_STREAM = 1024  # launches that wait on a stream before the next call waits, too
