"""Coding agents as hosts: their settings files written and taken back, and what they call at their events."""
