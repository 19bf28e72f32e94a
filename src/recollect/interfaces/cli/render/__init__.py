"""Replies for people, on a terminal."""
