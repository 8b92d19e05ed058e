"""The HTTP API, in the conventions of Kubernetes."""
