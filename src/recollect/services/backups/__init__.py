"""Backups: made, recorded, rotated, and proven by restoring them."""
