"""Queries that a question may mean: built from its parts, or from questions that were verified before."""
