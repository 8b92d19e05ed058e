"""`enmasse crds`: the kinds as definitions for a Kubernetes API server."""


def crds() -> None:
    """Print the custom resource definitions of all kinds, as YAML.

    Example: enmasse crds | kubectl apply --server-side -f -
    """
    import yaml

    from enmasse.resources.crd import definitions

    print(yaml.safe_dump_all(definitions(), sort_keys=False), end="")
