"""The ports, filled: databases, vector indexes, models, files and the network."""
