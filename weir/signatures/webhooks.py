"""Signatures of webhooks (Standard Webhooks, https://www.standardwebhooks.com/): HMAC-SHA256 by keys in a secret.

The secret has one key `whsec_...`, or several (`weir.conf.secrets.keys`). Each key signs, so a receiver accepts a
message as long as it has one of them.
"""

import base64
import binascii
import hmac
import re
import time
from typing import Final, NamedTuple

from weir.conf import secrets
from weir.conf.secrets import MOST_KEYS, SecretUnusable

PREFIX: Final = "whsec_"
SIZES: Final = range(24, 65)  # bytes of a key, as the specification recommends
MAKE_ONE: Final = f"make one by `echo {PREFIX}$(openssl rand -base64 32)`"
# The header in which a request that is still to be signed names the secret. It is not a placeholder for the secret's
# text, which is never sent.
SIGNATURE: Final = "webhook-signature"
ID: Final = "webhook-id"
_NAMED: Final = re.compile(r"\{webhook:([A-Za-z]\w{0,99})\}", re.ASCII)


class WebhookSigner(NamedTuple):
    """Signs messages with all keys of a secret, and recognises messages that one of the keys has signed."""

    keys: tuple[str, ...]  # in Base64, without PREFIX

    def lines(self, message_id: str, body: bytes) -> bytes:
        """Return the lines of the head that sign this body now; receivers accept them for five minutes."""
        now = str(int(time.time()))
        signatures = " ".join(self._signatures(message_id, now, body))
        return f"{ID}: {message_id}\r\nwebhook-timestamp: {now}\r\n{SIGNATURE}: {signatures}\r\n".encode("ascii")

    def has_signed(self, signatures: str, message_id: str, timestamp: str, body: bytes) -> bool:
        """Return whether one of the signatures, separated by blanks, is by one of the keys.

        The caller checks that the timestamp is recent. Work is bounded: only the first MOST_KEYS signatures count.
        """
        given = [text.encode() for text in signatures.split()[:MOST_KEYS]]
        wanted = [text.encode() for text in self._signatures(message_id, timestamp, body)]
        return any(hmac.compare_digest(one, each) for one in given for each in wanted)

    def _signatures(self, message_id: str, timestamp: str, body: bytes) -> list[str]:
        signed = f"{message_id}.{timestamp}.".encode() + body
        found = (hmac.digest(base64.b64decode(key), signed, "sha256") for key in self.keys)
        return [f"v1,{base64.b64encode(one).decode()}" for one in found]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def to_be_signed(name: str) -> str:
    """Return the value of SIGNATURE in a request that is to be signed with the keys in this secret."""
    return f"{{webhook:{name}}}"


def named_in(value: str) -> str | None:
    """Return the name of the secret in a value that `to_be_signed` has made; None for any other text."""
    found = _NAMED.fullmatch(value)
    return found[1] if found else None


def signer(name: str) -> WebhookSigner:
    """Return what signs with the keys in this secret. Raises SecretUnusable, which quotes nothing of the secret."""
    listed = secrets.keys(name)
    keys = tuple(text.removeprefix(PREFIX) for text in listed)
    if not all(text.startswith(PREFIX) for text in listed) or not all(map(_is_key, keys)):
        raise SecretUnusable(
            f"the secret {name} must have keys of webhooks, each {PREFIX} and {SIZES[0]} to {SIZES[-1]} bytes in "
            f"Base64: {MAKE_ONE}"
        )
    return WebhookSigner(keys)


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) in SIZES
    except binascii.Error:
        return False
