"""How a site is reached: through which proxy, by which authorities, and with which certificate of ours. Pure.

The authorities, the certificate, and what a proxy asks for are secrets, which the values name by placeholders, as
those of headers do (request_headers.py).
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from weir.conf.texts.networks import HIGHEST_PORT
from weir.conf.texts.request_headers import SECRET, named_in

PROXY: Final = "proxy"
CA: Final = "ca"
CERTIFICATE: Final = "certificate"
NAMES: Final = (PROXY, CA, CERTIFICATE)
_SECRET: Final = rf"\{{{SECRET}:([A-Za-z]\w{{0,99}})\}}"
_ONE_SECRET: Final = re.compile(_SECRET, re.ASCII)
_PROXY: Final = re.compile(
    rf"http://(?:{_SECRET}@)?"
    r"(?P<place>(?P<host>[a-z0-9._-]{1,253}|\[[0-9a-f:.]{2,45}\]):(?P<port>[1-9][0-9]{0,4}))",
    re.ASCII,
)


class ProxyParts(NamedTuple):
    """A proxy of HTTP, and how Weir says who it is there."""

    host: str  # without the brackets of an IPv6 address
    port: int
    secret: str  # the name of the secret USER:PASSWORD; empty if it asks for none

    @property
    def place(self) -> str:
        """The host and the port, as the setting WEIR_FETCH_PROXIES has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def usable_network(network: Mapping[str, str] | Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the settings as they are stored.

    Raises ValueError with a sentence that quotes no value, and TypeError for a name or a value that is no text.
    """
    usable: dict[str, str] = {}
    for name, value in network.items() if isinstance(network, Mapping) else network:
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError("network must map names to values, and both must be texts.")
        if name not in NAMES:
            raise ValueError(f"network must have {', '.join(NAMES)} only.")
        if name in usable:
            raise ValueError(f"network must have {name} once, but it is there twice.")
        if name == PROXY:
            proxy_parts(value)
        elif not _ONE_SECRET.fullmatch(value):
            raise ValueError(f"network must name the secret with the {name}: write {name}={{secret:NAME}}.")
        usable[name] = value
    return usable


def proxy_parts(url: str) -> ProxyParts:
    """Return the parts of a proxy's URL. Raises ValueError with a sentence that does not quote it."""
    found = _PROXY.fullmatch(url)
    if not found or int(found["port"]) > HIGHEST_PORT:
        raise ValueError(
            "network must have a proxy such as http://proxy.example.com:3128, with its port, or "
            "http://{secret:NAME}@proxy.example.com:3128 where the secret is USER:PASSWORD."
        )
    return ProxyParts(found["host"].strip("[]"), int(found["port"]), found[1] or "")


def proxy_place(text: str) -> str:
    """Return the text of a proxy's host and port, such as `proxy.example.com:3128`. Raises ValueError for another."""
    return proxy_parts(f"http://{text.strip().lower()}").place


def secret_named(value: str) -> str:
    """Return the name of the only secret in the value."""
    [named] = named_in({"": value})
    return named.name


def parse_network(text: str) -> tuple[str, str]:
    """Return the name and the value of a text such as `proxy=http://proxy.example.com:3128`. Raises ValueError."""
    name, equals, value = text.strip().partition("=")
    if not equals:
        raise ValueError(f"must be one of {', '.join(NAMES)}, such as ca={{secret:NAME}}, with an equals sign")
    return name, value


def written_network(network: Mapping[str, str]) -> list[str]:
    """Return the settings as texts, as `parse_network` reads them."""
    return [f"{name}={value}" for name, value in network.items()]
