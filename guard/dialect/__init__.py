"""How a backend is told what may be written: grammars narrowed to a procedure."""
