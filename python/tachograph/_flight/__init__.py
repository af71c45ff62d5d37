"""The flight recorder: a ring of the last seconds, and a copy of it when something goes wrong."""
