"""Output of commands: tables, documents, templates and changes."""
