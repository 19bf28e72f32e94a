"""Workspaces: files of agents by content hash, snapshots of them, and folders of this machine."""
