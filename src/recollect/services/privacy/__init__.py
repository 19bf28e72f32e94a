"""Privacy: what is stored about a person is found, handed over and erased, with a certificate."""
