"""The memory of AI agents."""
