"""Vector indexes kept in other systems, fed from the records."""
