"""Resources in commands: kinds, names, files, patches, quotas and diagnosis."""
