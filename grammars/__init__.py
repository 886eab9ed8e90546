"""The grammars of procedures and traces, as package data."""
