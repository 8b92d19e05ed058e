"""The audit trails: of requests, of logins, and of addresses created for links."""
