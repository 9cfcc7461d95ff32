"""Quotas: headers by which a site says, before it refuses anything, that a quota is used up, and until when. Pure.

They come in three families:
- `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers), structured fields: a list of quotas, each
  with what is left (`r`) and the seconds to its reset (`t`); in older drafts a dictionary (`remaining`, `reset`).
- `RateLimit-Remaining`, `RateLimit-Reset` and `RateLimit-Limit`, of the drafts before these.
- The same names that begin with `X-RateLimit-` or `X-Rate-Limit-`. Their reset is a number of seconds at some sites,
  and a moment at others.

If a used-up quota states no reset, the site is asked again after SHORTEST_BACK_OFF; or, if the quota's size and window
are known, after the part of the window that one request has, if that is longer.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

import http_sf

from weir.ratelimit.site_settings import SHORTEST_BACK_OFF
from weir.workers.fetches.fetcher.refusals import times
from weir.workers.fetches.fetcher.refusals.times import Time

LONGEST_FIELD = 1_024  # bytes of a structured field: reading costs a microsecond for each
CONCURRENT: Final = "concurrent-requests"  # the unit of a quota of requests in flight, in which each answer makes room

FIELD, POLICY = b"ratelimit", b"ratelimit-policy"
FAMILIES: Final = {b"ratelimit-": "RateLimit", b"x-ratelimit-": "X-RateLimit", b"x-rate-limit-": "X-Rate-Limit"}
PARTS: Final = (b"limit", b"remaining", b"reset", b"reset-after")
NAMES: Final = frozenset([FIELD, POLICY, *(family + part for family in FAMILIES for part in PARTS)])
_UNLIMITED = re.compile(r"0+(?:\.0*)?|-[0-9]+", re.ASCII)  # such a limit means that there is no limit
_ZERO = re.compile(r"0+(?:\.0*)?", re.ASCII)


class UsedUp(NamedTuple):
    """A quota of which nothing is left."""

    time: Time
    header: str  # the header that says so
    is_stated: bool  # if not, the reset is a guess


class Policy(NamedTuple):
    """The size of a quota, as far as the answer states it."""

    size: float
    window_s: float
    unit: str

    @property
    def share_s(self) -> float:
        """Return how many seconds of the window one request has; 0 if the size is not known."""
        return self.window_s / self.size if self.size > 0 else 0.0


def used_up(found: Mapping[bytes, Sequence[bytes]], date: Sequence[bytes], *, is_refused: bool) -> UsedUp | None:
    """Return the quota that is used up for longest; None if none is. `found` has the headers by lower-case name.

    If the answer is a refusal (`is_refused`), a reset without a remaining number means a used-up quota, too.
    """
    policies = found.get(POLICY, ())
    quotas = [*_of_field(found.get(FIELD, ()), policies)]
    for prefix, header in FAMILIES.items():
        if of_family := {name.removeprefix(prefix): lines for name, lines in found.items() if name.startswith(prefix)}:
            quotas += _of_family(of_family, header, date, policies, is_refused=is_refused)
    return max(quotas, key=lambda quota: quota.time.length, default=None)


def _of_field(lines: Sequence[bytes], policy_lines: Sequence[bytes]) -> Iterator[UsedUp]:
    if not any(b"=0" in line for line in lines):
        return  # something is left of each quota, as in nearly all answers
    policies = _policies(policy_lines)
    for name, parameters in _items(lines):
        policy = policies.get(str(name))
        if _number(parameters, "r") == 0 and not (policy and policy.unit == CONCURRENT):
            yield from _used_up("RateLimit", _number(parameters, "t"), [policy] if policy else [])
    values = _entries(lines)
    if _number(values, "remaining") == 0 and _number(values, "limit") != 0:
        yield from _used_up("RateLimit", _number(values, "reset"), policies.values())


def _policies(lines: Sequence[bytes]) -> dict[str, Policy]:
    """Return the policies by name; in older drafts the size takes the place of the name."""
    return {
        name: Policy(
            size=_number(parameters, "q") or _number({"": value}, "") or 0.0,
            window_s=_number(parameters, "w") or 0.0,
            unit=str(parameters.get("qu", "")),
        )
        for value, parameters in _items(lines)
        for name in [str(value)]
    }


def _of_family(
    of_family: Mapping[bytes, Sequence[bytes]],
    header: str,
    date: Sequence[bytes],
    policy_lines: Sequence[bytes],
    *,
    is_refused: bool,
) -> Iterator[UsedUp]:
    limits, left = (list(times.texts(of_family.get(name, ()))) for name in (b"limit", b"remaining"))
    if any(_UNLIMITED.fullmatch(limit) for limit in limits):
        return  # there is no quota
    is_used_up = any(_ZERO.fullmatch(value.partition(";")[0].strip()) for value in left)
    resets = [*of_family.get(b"reset", ()), *of_family.get(b"reset-after", ())]
    if not is_used_up and not (is_refused and resets and not left):
        return
    if time := times.longest(resets, date):
        yield UsedUp(time, f"{header}-Remaining" if left else f"{header}-Reset", is_stated=True)
    elif is_used_up and not times.are_readable(resets):
        windows = [*_policies(policy_lines).values(), *_policies(of_family.get(b"limit", ())).values()]
        yield from _used_up(f"{header}-Remaining", None, windows)


def _used_up(header: str, reset: float | None, policies: Iterable[Policy]) -> Iterator[UsedUp]:
    """Yield the quota with its reset, or with a guess; nothing for a reset of 0, which is over."""
    if reset is None:
        seconds = max([SHORTEST_BACK_OFF, *(policy.share_s for policy in policies)])
        yield UsedUp(Time(seconds, None, ""), header, is_stated=False)
    elif reset > 0:
        yield UsedUp(Time(float(reset), None, str(reset)), header, is_stated=True)


def _items(lines: Sequence[bytes]) -> list[tuple[Any, Mapping[str, Any]]]:
    """Return the items of a list, each with its parameters; none if it is not a list."""
    parsed: Any = _parsed(lines, "list")
    return parsed or []


def _entries(lines: Sequence[bytes]) -> Mapping[str, Any]:
    """Return the values of a dictionary, without their parameters; none if it is not a dictionary."""
    parsed: Any = _parsed(lines, "dictionary")
    return {key: value for key, (value, _) in (parsed or {}).items()}


def _parsed(lines: Sequence[bytes], kind: str) -> object:
    """Parse a structured field of this kind; None if it is not one, or too long to be read."""
    field = b",".join(lines[: times.MOST_LINES])
    if not 0 < len(field) <= LONGEST_FIELD:
        return None
    try:
        return http_sf.parse(field, tltype=kind)
    except http_sf.StructuredFieldError:
        return None


def _number(values: Mapping[str, Any], key: str) -> float | None:
    value = values.get(key)
    return float(value) if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) else None
