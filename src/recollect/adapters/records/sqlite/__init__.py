"""The default record store: one SQLite file."""
