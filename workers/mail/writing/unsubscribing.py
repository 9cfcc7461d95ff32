"""The links by which recipients unsubscribe from a kind of e-mail. They are signed, and name the address by its hash.

A link does not expire, because an e-mail may be read years later. It can be made only with the project's SECRET_KEY,
and counts as long as that key is in SECRET_KEY or SECRET_KEY_FALLBACKS.
"""

import base64
import binascii
from typing import Final, NamedTuple

from django.core.signing import BadSignature, Signer
from django.urls import NoReverseMatch, reverse

from weir.conf import settings
from weir.workers.mail import kinds
from weir.workers.mail.addresses import address_hash, canonical
from weir.workers.mail.headers.texts import CannotBeWritten

SALT: Final = "weir.mail.unsubscribe"
VIEW: Final = "weir_mail:unsubscribe"
LONGEST_ABOUT: Final = 450  # bytes
LONGEST_TOKEN: Final = 800  # characters: `about` has 600 at most, a kind 100, the hash and the signature 43 each


class NoLink(Exception):
    """The token was not made here."""


class Subscription(NamedTuple):
    """A kind of e-mail to an address; `about` is for the receivers of `signals.unsubscribed`."""

    kind: str
    address_hash: str
    about: str = ""


def url(kind: str, address: str, *, about: str = "") -> str:
    """Return the URL of the page on which the owner of this address unsubscribes from this kind, such as for a footer.

    It needs no login. `about`, of LONGEST_ABOUT at most, says what that means to the kind's app. Raises
    UnknownEmailKind; and EmailCannotBeWritten if the address is none, WEIR_MAIL_UNSUBSCRIBE_ORIGIN is not set, or the
    project does not include `weir.workers.mail.web.urls`.
    """
    kinds.get(kind)  # raises UnknownKind
    hashed = bytes.fromhex(address_hash(canonical(address)))
    if not settings.WEIR_MAIL_UNSUBSCRIBE_ORIGIN:
        raise CannotBeWritten("Nobody can unsubscribe: WEIR_MAIL_UNSUBSCRIBE_ORIGIN is not set.")
    named = f"{kind}~{_base64(about.encode())}" if about else kind
    token = Signer(salt=SALT).sign(f"{named}:{_base64(hashed)}")
    try:
        return f"{settings.WEIR_MAIL_UNSUBSCRIBE_ORIGIN}{reverse(VIEW, args=[token])}"
    except NoReverseMatch as error:
        raise CannotBeWritten("Nobody can unsubscribe: no URL includes weir.workers.mail.web.urls.") from error


def read(token: str) -> Subscription:
    """Return what a token of such a URL names. Raises NoLink."""
    try:
        if len(token) > LONGEST_TOKEN:
            raise NoLink
        named, _, hashed = Signer(salt=SALT).unsign(token).rpartition(":")
        kind, _, about = named.partition("~")
        return Subscription(kind, _bytes(hashed).hex(), _bytes(about).decode())
    except (BadSignature, binascii.Error) as error:
        raise NoLink from error


def _base64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
