"""Names and addresses of machines."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a name or an address denotes this machine and is unreachable from others."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    # A dual-stack listener reports an IPv4 peer as an IPv4-mapped IPv6 address.
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
