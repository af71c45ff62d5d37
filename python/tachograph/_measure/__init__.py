"""Measured times: devices and their clocks, series and what they say, phases, conditions."""
