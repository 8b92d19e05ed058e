"""The web console: its files, logins and sessions."""
