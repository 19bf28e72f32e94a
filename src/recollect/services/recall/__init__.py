"""Memories come out: found by words and by meaning, listed, shown, packed for a prompt, asked as of a moment."""
