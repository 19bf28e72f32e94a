"""What agent frameworks keep here: checkpoints, values under keys, and a graph of entities."""
