"""What commands are about: kinds, names, files, patches, quotas and diagnosis."""
