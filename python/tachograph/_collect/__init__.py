"""One window of recording, whoever collects it: our own recorder or torch's collector, what they are told, and what is
told to torch."""
