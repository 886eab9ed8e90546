"""The command `stepguard`: every part of the product from a shell."""

from guard.cli.main import main

__all__ = ["main"]
