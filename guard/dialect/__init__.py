"""How a backend is told the grammar of a trace, narrowed to what is left of one procedure."""

from guard.dialect.gbnf import gbnf
from guard.dialect.lark import Narrowed, lark_text, narrow
from guard.dialect.line import Level

__all__ = ["Level", "Narrowed", "gbnf", "lark_text", "narrow"]
