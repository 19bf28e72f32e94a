"""DuckDB encrypts securely with the OpenSSL of its extension httpfs, which no package of Python brings in this version.

What it calls unsafe without is how its own library draws random numbers. The files are the same, so tests use that.
"""

WITHOUT_OPENSSL = "SET force_mbedtls_unsafe = true"
