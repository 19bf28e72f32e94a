"""The record store for teams: a PostgreSQL database, or a Citus cluster."""
