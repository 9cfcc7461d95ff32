"""Faults: why an attempt ended without a whole answer, and who is to blame. Pure.

Only the site's own faults count as attempts. The table of situations is docs/reference/outcomes.md. The history
recognises classes of failures by these sentences (weir_history_failure_reason).
"""

import errno
import os
import re
import ssl
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from socket import EAI_AGAIN, EAI_FAIL, EAI_MEMORY, EAI_SYSTEM, gaierror
from typing import Any

from weir.conf import settings
from weir.workers.fetches.addresses import AddressRefused
from weir.workers.fetches.fetcher.wire.answers import AnswerTooLarge, NotHttp
from weir.workers.fetches.fetcher.wire.connection import ConnectionEnded

# This process or its host has run out of something, or lost it: descriptors, buffers, memory, the network.
OWN_ERRORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ENETDOWN})
OWN_LOOKUP_ERRORS = frozenset({EAI_MEMORY, EAI_SYSTEM})  # the system's resolver had no memory or descriptors
UNCLEAR_LOOKUP_ERRORS = frozenset({EAI_AGAIN, EAI_FAIL})  # our name servers do not answer, or the site's do not
UNCLEAR_ERRORS = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.ETIMEDOUT})
NUMBER = re.compile(r"\[Errno (\d+)\]")  # in the text of one error that stands for several, one of each address

SocketAddress = tuple[int, tuple[Any, ...]]  # the family, and what `connect` is called with


class ConnectionTooSlow(Exception):
    """The connection took longer to open than its slot could wait."""


class NoRoomInTime(MemoryError):
    """The answer waited so long for memory that other answers hold that it could no longer be stored in time."""


class HandshakeTimedOut(TimeoutError):
    """The site accepted the connection, but its TLS handshake did not end in time."""


class LookupTimedOut(OSError):
    """The name servers did not answer in time."""


class LookupFailed(Exception):
    """The look-up of the host failed with this error."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class Party(Enum):
    """Who is to blame."""

    SITE = "site"
    OURS = "ours"
    OTHERS = "others"  # other answers, which hold all memory
    UNCLEAR = "unclear"  # the site, or our resolver or uplink: other sites show which (reachability.py)


class Respect(Enum):
    """In what respect a site is reached, or not."""

    LOOKUP = "looked up"
    CONNECTION = "connected to"
    ANSWER = "answered"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """Why an attempt ended."""

    error: str
    party: Party = Party.SITE
    respect: Respect | None = None  # in what the site was not reached; None: it was reached, or not tried
    permanent: bool = False  # another attempt would end the same


def fault_of(
    error: Exception, *, written: bool, tried: Collection[SocketAddress], has_route: Callable[..., bool]
) -> Fault:
    """Decide who is to blame for this error, which comes from the wire, the operating system, or Weir itself.

    `written` says whether the request was written, `tried` has the addresses to which a connection was tried, and
    `has_route` returns whether this host has a route to one of the given addresses, or to the Internet.
    """
    if isinstance(error, (AddressRefused, AnswerTooLarge)):
        return Fault(error=str(error), permanent=True)
    if isinstance(error, (ConnectionTooSlow, NoRoomInTime)):
        at_fault = Party.OURS if _has_run_out(error) else Party.SITE
        return Fault(error=str(error), party=Party.OTHERS if isinstance(error, NoRoomInTime) else at_fault)
    if isinstance(error, LookupFailed):
        return _lookup_fault(error.error)
    respect = Respect.ANSWER if written else Respect.CONNECTION
    if isinstance(error, TimeoutError) and error.errno is None:  # our own time-out, not the kernel's
        return Fault(error=_time_out(error, written=written), party=Party.UNCLEAR, respect=respect)
    if isinstance(error, (NotHttp, ConnectionEnded)):
        return Fault(error=str(error), respect=respect)
    party = _party(error, written=written, tried=tried, has_route=has_route)
    if _has_run_out(error):
        party = Party.OURS
    return Fault(error=_text(error, written=written, tried=tried), party=party, respect=respect)


def _text(error: Exception, *, written: bool, tried: Collection[SocketAddress]) -> str:
    """Say what happened, for the people who look after the fetch."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the site's certificate is not valid: {getattr(error, 'verify_message', error)}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    numbers = _numbers(error)
    reasons = ", ".join(os.strerror(number) for number in sorted(numbers)) or str(error) or type(error).__name__
    if written:
        return f"the connection was lost: {reasons}"
    if numbers == {errno.ECONNREFUSED}:
        return (
            f"connection refused by {_places(tried)} (ECONNREFUSED): "
            "no server listens there, so check the URL's host and port"
        )
    return f"not connected to {_places(tried)}: {reasons}"


def _lookup_fault(error: Exception) -> Fault:
    party = Party.SITE
    if isinstance(error, LookupTimedOut) or (isinstance(error, gaierror) and error.errno in UNCLEAR_LOOKUP_ERRORS):
        party = Party.UNCLEAR
    elif isinstance(error, OSError) and error.errno in OWN_LOOKUP_ERRORS | OWN_ERRORS:
        party = Party.OURS
    return Fault(error=f"{type(error).__name__}: {error}", party=party, respect=Respect.LOOKUP)


def _party(
    error: Exception, *, written: bool, tried: Collection[SocketAddress], has_route: Callable[..., bool]
) -> Party:
    numbers = _numbers(error)
    if not numbers or numbers - UNCLEAR_ERRORS:
        return Party.SITE
    if written:
        return Party.UNCLEAR
    if errno.EADDRNOTAVAIL in numbers and has_route(tried):  # this host has an address, so all ports are in use
        return Party.OURS
    if numbers == {errno.ENETUNREACH}:  # a site may have addresses only of a family that this host lacks
        return Party.SITE if has_route() else Party.OURS
    return Party.UNCLEAR


def _has_run_out(error: BaseException | None) -> bool:
    """Return whether this error, or one that caused it, says that we have run out of something."""
    while error is not None:
        if isinstance(error, MemoryError) or _numbers(error) & OWN_ERRORS:
            return True
        error = error.__cause__ or error.__context__
    return False


def _numbers(error: BaseException) -> set[int]:
    """Return the system's numbers of an error: several if the addresses of a site failed in different ways."""
    if not isinstance(error, OSError):
        return set()
    return {int(number) for number in NUMBER.findall(str(error))} if error.errno is None else {error.errno}


def _places(tried: Collection[SocketAddress]) -> str:
    return " and ".join(sorted(f"{address[0]} port {address[1]}" for _, address in tried)) or "the site"


def _time_out(error: Exception, *, written: bool) -> str:
    if written:
        return f"no complete answer within {settings.WEIR_FETCH_TIMEOUT:g} s"
    what = ": its handshake of TLS did not end" if isinstance(error, HandshakeTimedOut) else ""
    return f"no connection within {settings.WEIR_FETCH_CONNECT_TIMEOUT:g} s{what}"
