"""Requests to a server: measuring, middleware, metrics, replay."""
