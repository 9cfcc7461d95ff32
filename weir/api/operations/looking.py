"""Looks: what a program asks for is bounded in time, as what a page shows is."""

import math
from collections.abc import Callable
from typing import TypeVar

from weir.api.http.problems import UNAVAILABLE, Problem
from weir.ops.snapshots import SeenOverview, look

T = TypeVar("T")


def looked(ask: Callable[[], T]) -> T:
    """Return what `ask` finds, which reads only. Raises Problem where PostgreSQL takes longer than a second."""
    return seen(look(ask))


def seen(of: SeenOverview[T]) -> T:
    """Return the value of a look. Raises Problem where there is none."""
    if of.value is None:
        raise Problem(UNAVAILABLE, of.failure)
    return of.value


def finite(seconds: float) -> float | None:
    """Return the seconds, or None where they are infinite, which JSON does not have."""
    return None if math.isinf(seconds) else seconds
