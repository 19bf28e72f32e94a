"""Cold storage: old sessions are moved into files, found there, and restored."""
