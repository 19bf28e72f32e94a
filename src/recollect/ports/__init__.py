"""What the services need from outside, as protocols: stores, vector indexes, models, folders."""
