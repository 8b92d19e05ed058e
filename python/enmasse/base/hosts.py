"""Names and addresses of machines."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a name or an address stands for this machine and nobody else can reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
