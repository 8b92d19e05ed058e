"""Documents of addresses that tests declare."""

SPACE = """
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {name: default}
spec: {type: standard}
"""
PARTITIONS = 2


def address(name: str, **spec: object) -> str:
    """The document of an address."""
    lines = [f"  {field}: {value}" for field, value in spec.items()]
    head = f"apiVersion: enmasse.io/v1beta1\nkind: Address\nmetadata: {{name: default.{name}}}\n"
    return "\n".join([f"{head}spec:\n  address: {name}", *lines, ""])


def stream(name: str, retention: str = "{bytes: 1GiB}") -> str:
    """The document of a stream with two partitions."""
    return address(name, type="topic", retention=retention, partitions=PARTITIONS)
