"""stepguard: a model carries out a written procedure, step by step, and every step is checked."""
