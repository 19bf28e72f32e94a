"""Finding memories: by words and by meaning, listed, shown, packed for a prompt, as of a moment."""
