"""Names and addresses of machines."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a name or an address stands for this machine and is unreachable from others."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    # How a peer of version 4 is called where one listener takes both.
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
