"""What commands print: tables, documents, templates and changes."""
