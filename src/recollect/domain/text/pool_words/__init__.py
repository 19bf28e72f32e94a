"""The words of a question in the texts of a pool: how often they stand there, and which texts tell of somebody."""
