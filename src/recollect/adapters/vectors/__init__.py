"""Vector search: embedded beside the store, in PostgreSQL, or in another system."""
