"""Workspaces: files of agents by content hash, snapshots of them, and exchange with local folders."""
