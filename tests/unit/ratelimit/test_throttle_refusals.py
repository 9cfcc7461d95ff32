"""What throttle() and athrottle() refuse before they ask the database."""

import asyncio
import math

import pytest

from tests.cases import for_each
from weir.ratelimit.throttle import athrottle, throttle


@for_each("max_wait", [-1, math.nan, math.inf, 1e300])
@for_each("kind", ["throttle", "athrottle"])
def test_an_impossible_wait_is_refused(kind: str, max_wait: float) -> None:
    """As throttled_task does: nothing is reserved, and the body does not run."""

    async def asynchronously() -> None:
        async with athrottle("site.example", max_wait):
            pytest.fail("It started without a time to wait.")

    def synchronously() -> None:
        with throttle("site.example", max_wait):
            pytest.fail("It started without a time to wait.")

    with pytest.raises(ValueError, match="max_wait must be a number of seconds"):
        synchronously() if kind == "throttle" else asyncio.run(asynchronously())
