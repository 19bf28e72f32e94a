"""Who may do what: API keys, passwords and roles, and the permissions they grant."""
