"""Learning from experience: episodes, the patterns learned from them, and summaries."""
