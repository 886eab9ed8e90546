"""What others get to see: metrics and spans."""
