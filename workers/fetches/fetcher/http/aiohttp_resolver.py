"""The guarded resolver, in the form that aiohttp wants."""

import socket
from collections.abc import Callable

from aiohttp.abc import AbstractResolver, ResolveResult
from django.conf import settings

from workers.fetches.addresses import Allowed
from workers.fetches.fetcher.http.resolver import GuardedResolver


class ResolverOfAiohttp(AbstractResolver):
    """A resolver of aiohttp's that asks the guarded one."""

    def __init__(self, guarded: GuardedResolver) -> None:
        self._guarded = guarded

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002  always both
    ) -> list[ResolveResult]:
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(hostname=host, host=address[0], port=port, family=family, proto=protocol, flags=flags)
            for family, _, protocol, _, address in await self._guarded.resolve(host, port)
        ]

    async def close(self) -> None:
        self._guarded.close()


def guarded_resolver(allowed: Allowed, answered: Callable[[], None]) -> ResolverOfAiohttp:
    """Return a resolver for aiohttp's connector."""
    timeout_s = settings.WEIR_FETCH_DNS_TIMEOUT
    return ResolverOfAiohttp(GuardedResolver(allowed=allowed, timeout_s=timeout_s, answered=answered))
