"""Trust in memories: their citations, checks of them, and the statuses that follow."""
