"""Who may come in: keys, passwords, roles, and what each of them grants."""
