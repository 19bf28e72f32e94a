"""Importers: one module per product that memories come from, each with a declared mapping of its fields to ours.

A module reads a file, folder or zip and yields entries (`entries.py`); it writes nothing and knows no store. What it
could not map is noted (`findings.py`) and kept in the metadata of the memory it belongs to. Ids are those of the
source, or derived from what they stand for, so that a second run finds what the first has written.
`services/admin/import_from.py` writes the entries.

To add a source: one module with a `SOURCE`, and its name in `registry.py`.
"""
