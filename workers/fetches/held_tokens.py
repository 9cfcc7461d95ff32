"""Access tokens in the memory of a process: as jobs carry them, and as outcomes bring them."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

LONGEST_ANSWER: Final = 65_536  # bytes of what a server of access tokens says


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldToken:
    """An access token as this process has it."""

    text: str = field(repr=False)
    key: UUID  # of its client
    version: int
    obtained_at: float  # this process' clock
    expires_at: float  # the same clock


class RefusedToken(NamedTuple):
    """An access token that a site has answered with 401."""

    key: UUID
    version: int
    site_id: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenReading:
    """What a request for an access token brought: a token, or the reason why there is none."""

    key: UUID
    client: str
    sealed: bytes | None = field(default=None, repr=False)
    lifetime_s: float | None = None  # since the request was written; None without a token
    requested_at: float | None = None  # this process' clock
    error: str = ""
    retry_after_s: float = 0.0  # for which the server wants to be left alone
