"""The HTTP API: one route per operation of the catalogue, and what a service needs around them."""
