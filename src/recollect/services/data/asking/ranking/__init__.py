"""The learned parts: features, weights, scores of candidates, and how sure an answer is."""
