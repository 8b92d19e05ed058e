"""Who may do what: passwords, the API's token, certificates. Nothing here talks to a network."""
