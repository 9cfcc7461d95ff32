"""The deltas of unread numbers in Redis. Each call runs one script (`lua/`) through `weir.redis_link`.

A delta is added to the open *epoch*. A flusher seals this epoch, which opens the next one. Then it brings the sealed
epoch's deltas to PostgreSQL, and drops the epoch. At most one epoch is sealed at a time. Redis runs commands and
scripts one after the other. So each delta is in exactly one epoch, and `peek` sees all live epochs as they were at one
moment. The open epoch's deltas have a key of their own, which sealing renames, so that `add` need not know the epoch.

Redis may lose all its data at any time. Its *incarnation* is a random name that is lost together with the deltas. So
another incarnation shows that deltas are lost.

Other programs may write to our keys. An *entry* of an epoch is strange if `add` cannot have made it: its member is not
a user's key, or its score is not a delta. Readers and flushes leave it out. A key that is strange as a whole counts as
lost.

All functions raise RedisUnreachable if Redis refuses the call, or does not answer in time. If it did not answer, it may
have executed the call. No call is repeated, because Redis could then execute it twice.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple
from uuid import uuid4

from weir.logs.loggers import get_logger
from weir.notifications import user_keys, watching
from weir.notifications.user_keys import UserKey
from weir.redis_link import calls, server_runs
from weir.redis_link.calls import Script
from weir.redis_link.keys import keys

ADD = Script("add")
DROP = Script("drop")
OPEN = Script("open")
PEEK = Script("peek")
READ = Script("read")
SEAL = Script("seal")
WAITING = Script("waiting")

RedisUnreachable = calls.RedisUnreachable
AT_ONCE = 5_000  # users in one script: fewer than Lua's stack holds, and Redis serves other clients between two scripts
# The largest delta of a user in one epoch. A stored number overflows only after 2**32 strange deltas of this size.
MOST_DELTA: Final = 2**31 - 1
FIRST_STRANGE, MOST_SHOWN = 5, 20  # how many strange entries are logged, and how many characters of each
_EPOCH: Final = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)
_INCARNATION: Final = re.compile(r"[1-9][0-9]{0,17}-[0-9a-f]+", re.ASCII)

log = get_logger(__name__)


class Sealed(NamedTuple):
    """The sealed epoch; `fresh` if this call sealed it, and no earlier one."""

    epoch: int
    fresh: bool


@dataclass(kw_only=True, slots=True)
class SealedDeltas:
    """The deltas of a sealed epoch, for each user whose delta is not 0, and how many of its entries are strange.

    `spoilt` has the users of strange entries, because it is not known by how much their numbers have changed.
    """

    deltas: dict[UserKey, int] = field(default_factory=dict)
    strange: int = 0
    first_strange: dict[str, str] = field(default_factory=dict)  # a few members, made printable, and their scores
    spoilt: list[UserKey] = field(default_factory=list)

    def add_each(self, kind: user_keys.KeyKind, members: list[str], scores: list[str]) -> None:
        """Add entries, some of which may be strange."""
        for member, score in zip(members, scores, strict=True):
            user, delta = kind.of_text(member), _delta(score)
            if user is None or delta is None:
                self._note_strange(member, score, user)
            elif delta:
                self.deltas[user] = delta

    def _note_strange(self, member: str, score: str, user: UserKey | None) -> None:
        """Record a strange entry, and its user, if its member is a user's key."""
        self.strange += 1
        if len(self.first_strange) < FIRST_STRANGE:
            self.first_strange[ascii(member[:MOST_SHOWN])] = score
        if user is not None:
            self.spoilt.append(user)


@dataclass(frozen=True, kw_only=True, slots=True)
class Peek:
    """The live deltas of some users at one moment, by epoch. `incarnation` is empty if Redis has no epoch."""

    incarnation: str = ""
    deltas: Mapping[int, Mapping[UserKey, int]]

    def of(self, user_id: UserKey) -> dict[int, int]:
        """Return the user's deltas by epoch."""
        return {epoch: of_users[user_id] for epoch, of_users in self.deltas.items() if user_id in of_users}

    def after(self, epoch: int, user_id: UserKey) -> int:
        """Return the user's deltas of all epochs after this one."""
        return sum(of_users.get(user_id, 0) for live, of_users in self.deltas.items() if live > epoch)


def add(deltas: Mapping[UserKey, int]) -> None:
    """Add deltas to the unread numbers of at most 5,000 users, in one call to Redis.

    Redis adds the deltas within 1.25 s from now, on its own clock, or never: deltas that arrive later may already count
    as lost. If Redis' clock is set back meanwhile, the deadline is later by as much. Redis adds the deltas once, even
    if something in the network delivers the call twice.

    A Redis that lost its memory accepts the deltas, too: they then belong to the epoch that is opened there next.
    """
    ours = keys()
    calls.run_in_time(
        ADD,
        [ours.open, ours.calls],
        [part for user_id, delta in deltas.items() for part in (str(user_id), delta)],
    )


def open_epoch(floor: int, *, replacing: str = "") -> str:
    """Make sure that an epoch above `floor`, the highest flushed one, is open; return Redis' incarnation.

    The incarnation is new if Redis had none, if Redis came back older than it was, if the old incarnation was
    `replacing`, or if another program has overwritten a key.
    """
    ours = keys()
    of_script = [ours.epoch, ours.open, ours.sealed, ours.deltas, ours.incarnation, ours.calls]
    incarnation, *strange = calls.run(OPEN, of_script, [floor, uuid4().hex, replacing])
    if strange:
        log.warning("unread_strange_keys", keys=strange)
    return str(incarnation)


def seal() -> Sealed | None:
    """Seal the open epoch, unless one is sealed already; return the sealed epoch, or None if there are no deltas."""
    ours = keys()
    answer = calls.run(SEAL, [ours.epoch, ours.open, ours.sealed, ours.deltas, ours.calls], [])
    return answer and Sealed(int(answer[0]), bool(answer[1]))


def read(epoch: int) -> SealedDeltas:
    """Return the deltas of a sealed epoch."""
    sealed, kind = SealedDeltas(), user_keys.kind()
    for members, scores in _pages(epoch):
        users, deltas = kind.of_texts(members), _deltas(scores)
        if users is not None and deltas is not None:  # always so, unless another program writes to our keys
            sealed.deltas.update({user: delta for user, delta in zip(users, deltas, strict=True) if delta})
        else:
            sealed.add_each(kind, members, scores)
    return sealed


def _pages(epoch: int) -> Iterator[tuple[list[str], list[str]]]:
    ours = keys()
    for start in count(0, AT_ONCE):
        page = calls.run(READ, [ours.sealed, ours.deltas], [epoch, start, start + AT_ONCE - 1])
        if not page:
            break
        yield page[::2], page[1::2]


def drop(epoch: int) -> bool:
    """Remove a sealed epoch whose deltas PostgreSQL has; if it is not sealed any more, do nothing and return False.

    An epoch that is not large is kept under another key for polls, which only read it (`weir.notifications.watching`).
    """
    ours = keys()
    return bool(calls.run(DROP, [ours.sealed, ours.deltas, watching.past(epoch)], [epoch]))


def peek(user_ids: Collection[UserKey]) -> Peek:
    """Return the live deltas of these users, at most 5,000, in one call to Redis.

    There are none if an epoch is not a number, or if the sealed epoch is not the one before the open epoch, because
    then another program has written the epochs.
    """
    ours = keys()
    of_script = [ours.epoch, ours.sealed, ours.incarnation, ours.open, ours.deltas]
    incarnation, *live = calls.run(PEEK, of_script, [str(user_id) for user_id in user_ids]) or ("",)
    if not _INCARNATION.fullmatch(incarnation) or not all(_EPOCH.fullmatch(epoch) for epoch, _ in live):
        return Peek(deltas={})
    deltas = {int(epoch): dict(_known(user_ids, scores)) for epoch, scores in live}
    opened, *sealed = deltas
    return Peek(incarnation=incarnation, deltas=deltas) if sealed in ([], [opened - 1]) else Peek(deltas={})


def _known(user_ids: Collection[UserKey], scores: Collection[str | None]) -> Iterator[tuple[UserKey, int]]:
    for user_id, score in zip(user_ids, scores, strict=True):
        if score is not None and (delta := _delta(score)) is not None:
            yield user_id, delta


def _delta(score: str) -> int | None:
    """Return the score as a delta, or None if it is not one."""
    number = float(score)
    return int(number) if number.is_integer() and abs(number) <= MOST_DELTA else None


def _deltas(scores: Collection[str]) -> list[int] | None:
    """Return the scores as deltas, or None if one of them is not a delta."""
    numbers = list(map(float, scores))
    if not all(map(float.is_integer, numbers)) or max(map(abs, numbers)) > MOST_DELTA:
        return None
    return list(map(int, numbers))


def waiting() -> int:
    """Return how many users' deltas wait for a flush. A user with deltas in both live epochs counts twice."""
    ours = keys()
    return int(calls.run(WAITING, [ours.open, ours.deltas], []))


def first_epoch(incarnation: str) -> int:
    """Return the first epoch of this incarnation. Earlier epochs are of a Redis that has lost its memory since."""
    return int(incarnation.partition("-")[0])


def server_run(known: str = "") -> str:
    """Return the name of the server's run. A new name shows a new start: Redis may have come back older than it was.

    `known` is the name that the last call returned.
    """
    return str(calls.ask(lambda link: server_runs.server_run(link, known)))
