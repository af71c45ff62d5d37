"""Memory over time: the history of blocks, the timeline by category and its page."""
