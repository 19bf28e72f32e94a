"""Agents and the users, sessions and projects beside them: what agents are told and given, and who is removed."""
