"""The embedded vector index: immutable segments of quantized vectors in a folder beside the store."""
