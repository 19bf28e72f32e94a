"""Files become tables: one module per format, each giving `RawTable`s; `reading` chooses one and writes Parquet."""
