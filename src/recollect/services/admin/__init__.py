"""Administration of a store: removal, expiry, audit, maintenance, partitions, export, import and copies."""
