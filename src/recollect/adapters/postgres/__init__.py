"""What every adapter for PostgreSQL shares: connections, errors in our words, poolers, pgvector's types."""
