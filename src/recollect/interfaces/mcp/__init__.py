"""The MCP server: the operations of the catalogue as tools for language models, over stdio and over HTTP."""
