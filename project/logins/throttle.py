"""How often a password may be tried: from an address, and for an account.

1. An address has a clock. An attempt that this clock refuses is not counted for the account: one address alone cannot
   use up an account's attempts.
2. An account has a clock, too, against guesses from many addresses.
3. At an address from which an account has logged in within the last 30 days, the account's clock does not count. So an
   attacker who uses up the account's attempts does not lock its owner out at the addresses that the owner works from.

An attempt is counted before the password is looked at, so many attempts at the same time do not get past the limits.
Nobody has to unlock an address or an account: the time that passes allows new attempts.
"""

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv6Address, ip_network
from typing import Final

from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest

from weir.ops.clients import client_of
from weir.postgres.statements import Statement, own_transaction


@dataclass(frozen=True, kw_only=True)
class LoginAllowance:
    """`burst` attempts together, then one attempt each `interval` (GCRA)."""

    burst: int
    interval: timedelta


ADDRESS: Final = LoginAllowance(burst=10, interval=timedelta(seconds=30))
# An account has more attempts than an address, so that one address alone does not use them up. From all addresses
# together, 8,640 passwords a day can be tried for an account.
ACCOUNT: Final = LoginAllowance(burst=30, interval=timedelta(seconds=10))
KNOWN_FOR: Final = timedelta(days=30)
IPV6_NETWORK: Final = 64  # bits of the smallest network that a subscriber usually gets

# Executed in transactions of their own, which the rollback of the request's transaction does not undo.
IS_KNOWN = Statement("is_known", commits=False)
REMEMBER = Statement("remember", commits=False)
# Counts an attempt; returns by how many seconds it comes too soon.
TAKE = Statement("take", returns=float, commits=False)


def take(address: str, username: str) -> float:
    """Count an attempt, and return 0.0. If the attempt comes too soon, return the seconds to wait instead."""
    account = _account(username)
    wait_s = _take(f"address {address}", ADDRESS) if address else 0.0
    if wait_s or _is_known(account, address):
        return wait_s
    return _take(f"account {account}", ACCOUNT)


def remember(request: HttpRequest | None, user: AbstractBaseUser, **_signal: object) -> None:
    """Record that the account has logged in from this address; receives Django's signal `user_logged_in`."""
    if request and (address := network_of(request)):
        key = _pair(_account(user.get_username()), address)
        with own_transaction() as execute:
            execute(REMEMBER, key=key, known_for=KNOWN_FOR)


def network_of(request: HttpRequest) -> str:
    """Return the client's IPv4 address, or its IPv6 network: a subscriber has many addresses. "" if unknown."""
    address = client_of(request)
    if address is None:
        return ""
    bits = IPV6_NETWORK if isinstance(address, IPv6Address) else address.max_prefixlen
    return str(ip_network((address, bits), strict=False))


def _is_known(account: str, address: str) -> bool:
    with own_transaction() as execute:
        return bool(execute(IS_KNOWN, key=_pair(account, address)))


def _take(key: str, allowance: LoginAllowance) -> float:
    tolerance = allowance.interval * (allowance.burst - 1)
    with own_transaction() as execute:
        [wait_s] = execute(TAKE, key=key, interval=allowance.interval, tolerance=tolerance)
    return wait_s


def _account(username: str) -> str:
    """Return a hash that stands for an account. The name is not stored, because people also type passwords there."""
    return hashlib.sha256(username.encode(errors="surrogatepass")).hexdigest()


def _pair(account: str, address: str) -> str:
    return f"{account} {address}"
