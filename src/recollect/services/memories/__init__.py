"""Memories: stored, changed, found again, merged, forgotten, and the vectors and words they are found by."""
