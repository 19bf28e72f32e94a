"""A service of several processes on one port: the workers, who watches over them, and what they count together."""
