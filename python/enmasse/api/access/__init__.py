"""Access control of the API: tokens, roles, impersonation, and access reviews."""
