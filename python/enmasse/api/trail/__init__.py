"""The audit trails: of requests, of logins, and of addresses that links create."""
