"""Files of cold storage: compressed Parquet, written and searched by DuckDB."""
