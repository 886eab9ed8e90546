"""Procedures that ship with stepguard, as package data."""
