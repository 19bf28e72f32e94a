"""For those who run a store: access, audit, maintenance, partitions, export, import and copies."""
