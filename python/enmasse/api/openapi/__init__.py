"""The OpenAPI documents: v3, and v2 in JSON and protobuf."""
