"""Sessions and the messages exchanged in them."""
