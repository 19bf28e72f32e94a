"""A plain question to SQL, offline: schema and values in, ranked readings out."""
