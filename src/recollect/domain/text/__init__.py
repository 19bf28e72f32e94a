"""Work on text: words, passages, questions, similarity, relevance, extracts and templates. No input or output."""
