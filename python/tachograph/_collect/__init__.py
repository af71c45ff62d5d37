"""One window of recording, by our recorder or by torch's collector: their options, and what is set in torch
meanwhile."""
