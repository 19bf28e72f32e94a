"""Backups in a folder or a bucket: `place` stores bytes by name, `chunks` cuts content, `repository` has the format."""
