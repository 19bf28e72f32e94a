"""The record store for analysis: one DuckDB file."""
