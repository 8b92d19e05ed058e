"""Access of commands to a platform: contexts, the HTTP API, messaging servers, trust."""
