"""Data: files and outside databases, what is in them, the questions asked of them, and the answers."""
