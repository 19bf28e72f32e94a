"""Databases outside: PostgreSQL (ADBC), MySQL and MariaDB (PyMySQL), SQLite files (APSW). They are only ever read.

What may be reached is decided in access.py, what may run in select_rules.py; parquet_file.py keeps the limits.
"""
