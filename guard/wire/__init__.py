"""What OpenAI-compatible JSON and event streams look like."""
