"""How doing it is written down: traces read, rendered and explained."""
