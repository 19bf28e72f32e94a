"""Record stores: one package per database, what they share in common/."""
