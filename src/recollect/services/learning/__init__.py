"""What experience adds up to: episodes, the patterns learned from them, and summaries."""
