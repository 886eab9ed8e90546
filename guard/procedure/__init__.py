"""What must be done: procedures as written, validated, compiled and executed."""
