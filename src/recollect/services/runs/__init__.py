"""Runs: tasks worked on step by step under a lease, taken over when a worker dies, controlled by people."""
