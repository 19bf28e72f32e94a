"""What a question says: its words, dates, values, and the tables and fields that it speaks of."""
