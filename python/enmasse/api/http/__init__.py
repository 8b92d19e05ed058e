"""The HTTP server: connections, TLS, bodies and content negotiation."""
