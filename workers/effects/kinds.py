"""Registers kinds of effects: functions that do something outside of PostgreSQL, given its arguments.

Each process imports the module `effects.py` of every installed app when it starts. In this module, a kind of effect is
one function, which does the effect once:

    @effect_kind("stripe.refund", key_lifetime=timedelta(hours=24))
    def refund(attempt: EffectAttempt, *, charge: str) -> object:
        attempt.begin()
        reply = requests.post(URL, {"charge": charge}, headers={"Idempotency-Key": attempt.idempotency_key}, timeout=30)
        reply.raise_for_status()
        return reply.json()["id"]

`once("stripe.refund", "17", context={"charge": "ch_1"})` queues one effect of this kind.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, TypeVar

from weir.conf.texts.suggestions import did_you_mean
from weir.workers.effects.answers import Done, NotDone
from weir.workers.effects.models import Effect
from weir.workers.ledger.outcomes import Outcome

Call = Callable[..., object]
Probe = Callable[[Effect], Done | NotDone | None]
_Registered = TypeVar("_Registered", bound=Call)
LONGEST_NAME: Final = 100  # characters
MOST_AT_ONCE: Final = 100
_NAME: Final = re.compile(r"\w+(\.\w+)*", re.ASCII)


class UnknownEffectKind(LookupError):
    """No app has registered this kind; the message says what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EffectKind:
    """A kind of effect, as it was registered."""

    name: str
    call: Call
    probe: Probe | None
    probe_for: timedelta
    settles_after: timedelta
    key_lifetime: timedelta | None
    expires_after: timedelta | None
    at_once: int
    hand_over: Callable[[Effect], Outcome] | None = None  # in place of a call: another room performs it


_kinds: dict[str, EffectKind] = {}


def register(
    name: str,
    *,
    probe: Probe | None = None,
    probe_for: timedelta = timedelta(days=1),
    settles_after: timedelta = timedelta(seconds=60),
    key_lifetime: timedelta | None = None,
    expires_after: timedelta | None = None,
    at_once: int = 4,
) -> Callable[[_Registered], _Registered]:
    """Register a function as a kind of effect.

    The function is called with an EffectAttempt, and with the effect's context as keyword arguments. It must call
    `attempt.begin()` right before the first byte that may cause the effect. It returns the result (JSON), or an
    EffectDone. If it raises an error before `begin`, or NotDone, nothing has happened. Any other error after `begin`,
    or the death of the process, leaves the outcome unknown, until it is settled in one of two ways:

    - `probe` is called with the Effect, only reads, and asks the other side what became of it. It returns EffectDone,
      NotDone, or None if that cannot be told yet. It is asked for the first time `settles_after` the attempt, when no
      request of it can be in flight any more, and again, for `probe_for` from the attempt on. A probe that raises an
      error is asked again, too.
    - `key_lifetime` says for how long the other side keeps idempotency keys: the function is called again within this
      time, with the same `attempt.idempotency_key`. A kind with a probe is not called for that.

    What cannot be settled is `unknown`, and waits for an operator. `expires_after` says for how long an effect of this
    kind may begin, unless `once` gets `expires_at`. Each process does up to `at_once` effects of the kind at a time.

    Raises ValueError if the name is bad, or taken, if a time is not above 0, or `at_once` not from 1 to 100, or if a
    function is `async`.
    """
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise ValueError(
            f"{name!r} cannot name a kind of effect: write letters, digits, _ and dots, such as stripe.refund, and "
            f"{LONGEST_NAME} characters at most."
        )
    times = {"probe_for": probe_for, "key_lifetime": key_lifetime, "expires_after": expires_after}
    for parameter, value in times.items():
        if value is not None and not (isinstance(value, timedelta) and value > timedelta()):
            raise ValueError(f"{parameter} of {name} must be a timedelta above 0, but is {value!r}.")
    if not isinstance(settles_after, timedelta) or settles_after < timedelta():
        raise ValueError(f"settles_after of {name} must be a timedelta of 0 or more, but is {settles_after!r}.")
    if not 1 <= at_once <= MOST_AT_ONCE:
        raise ValueError(f"at_once of {name} must be from 1 to {MOST_AT_ONCE}, but is {at_once!r}.")

    def add(call: _Registered) -> _Registered:
        if any(inspect.iscoroutinefunction(each) for each in (call, probe)):
            raise ValueError(f"The functions of {name} run in a thread, so they must be `def`, not `async def`.")
        if name in _kinds:
            raise ValueError(f"There are two kinds of effect {name!r}: {_kinds[name].call!r} and {call!r}.")
        _kinds[name] = EffectKind(
            name=name,
            call=call,
            probe=probe,
            probe_for=probe_for,
            settles_after=settles_after,
            key_lifetime=key_lifetime,
            expires_after=expires_after,
            at_once=at_once,
        )
        return call

    return add


def hand_over(name: str, to: Callable[[Effect], Outcome]) -> None:
    """Let a mailer leave the effects of this kind that are due to another room, in place of calling its function.

    `to` returns the outcome of that, which is not one of an attempt.
    """
    _kinds[name] = replace(get(name), hand_over=to)


def registered() -> tuple[EffectKind, ...]:
    """Return all kinds that installed apps have registered, by name."""
    return tuple(_kinds[name] for name in sorted(_kinds))


def get(name: str) -> EffectKind:
    """Return the kind of this name. Raises UnknownEffectKind."""
    if kind := _kinds.get(name):
        return kind
    raise UnknownEffectKind(
        f"There is no kind of effect {name!r}.{did_you_mean(name, _kinds)} "
        "Add the app whose effects.py registers it to INSTALLED_APPS, and restart the workers."
    )
