"""Reads for programs, with the same time limit as the reads of the operators' pages."""

import math
from collections.abc import Callable
from typing import TypeVar

from weir.api.http.problems import UNAVAILABLE, Problem
from weir.ops.snapshots import Look, look

T = TypeVar("T")


def looked(ask: Callable[[], T]) -> T:
    """Return the result of `ask`, which must only read. Raises Problem if a statement takes longer than a second."""
    return value_of(look(ask))


def value_of(of: Look[T]) -> T:
    """Return the value of a look. Raises Problem if the look has no value."""
    if of.value is None:
        raise Problem(UNAVAILABLE, of.failure)
    return of.value


def finite(seconds: float) -> float | None:
    """Return the seconds, or None if they are infinite: JSON has no infinite numbers."""
    return None if math.isinf(seconds) else seconds
