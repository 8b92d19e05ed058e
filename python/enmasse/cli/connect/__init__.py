"""Ways from a command to a platform: contexts, the HTTP API, messaging servers, trust."""
