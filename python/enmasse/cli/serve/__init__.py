"""`enmasse up` and `enmasse restore`: the platform in this process."""
