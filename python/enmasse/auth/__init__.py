"""Authentication and authorization: passwords, API tokens, certificates, external services."""
