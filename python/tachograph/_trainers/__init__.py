"""What trainers call: when to record, and where the answer goes."""
