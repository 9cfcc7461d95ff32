"""Signatures of HTTP messages (RFC 9421), by Ed25519: what is signed, and the members of the two fields. Pure."""

import base64
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from weir.signatures.keys import SignatureKey

SLOW_CLOCK_S: Final = 5  # seconds by which the clock of who checks may be behind: many refuse what is created later


class Component(NamedTuple):
    """A part of a message that the signature covers, such as `"@authority";req`, and its value."""

    identifier: str
    value: str


class Signed(NamedTuple):
    """A signature's members of the fields Signature-Input and Signature."""

    input: str
    signature: str


def sign(key: SignatureKey, label: str, components: Iterable[Component], parameters: Mapping[str, int | str]) -> Signed:
    """Return the signature of these components, with these parameters, under this label.

    No text may have a quote, a backslash, or a character beyond ASCII.
    """
    covered = list(components)
    said = "".join(f";{name}={_item(value)}" for name, value in parameters.items())
    listed = f"({' '.join(identifier for identifier, _ in covered)}){said}"
    lines = [f"{identifier}: {value}" for identifier, value in covered]
    base = "\n".join([*lines, f'"@signature-params": {listed}'])
    return Signed(f"{label}={listed}", f"{label}=:{base64.b64encode(key.sign(base.encode('ascii'))).decode()}:")


def _item(value: int | str) -> str:
    """Return a structured field's integer or string (RFC 9651)."""
    return str(value) if isinstance(value, int) else f'"{value}"'
