"""What of HTA's configuration a notebook may import: which args become columns of the frames, the logger, file
paths."""
