"""Who is let in: tokens, roles, impersonation, and reviews of access."""
