"""Performance budgets as tests: limits, what is measured against them, baseline files, and the pytest plugin."""
