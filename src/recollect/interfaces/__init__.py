"""The ways in: Python client, command line, HTTP, MCP; all follow from the catalogue."""
