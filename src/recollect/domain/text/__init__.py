"""Work on text: words, passages, questions, times, similarity, relevance, extracts, templates. No input or output."""
