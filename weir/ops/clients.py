"""The client's address of a request, for all code that counts, allows or logs requests by address.

In standalone Weir, `project.front.clients` has determined the address: only that module looks at headers.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address

from django.http import HttpRequest


def client_of(request: HttpRequest) -> IPv4Address | IPv6Address | None:
    """Return the client's address; None if it has no address, as on a Unix socket."""
    try:
        address = ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def is_local(request: HttpRequest) -> bool:
    """Return whether the request comes from this host."""
    client = client_of(request)
    return client is not None and client.is_loopback
