"""Talking to a model server."""
