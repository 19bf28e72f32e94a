"""Queries as data: what is selected and joined, from SQL and to SQL, as JSON and in words."""
