"""Retention: how long memories and sessions are kept, what happens then, and legal holds."""
