"""Other installations on the same server and database of Redis, which have the same users."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from uuid import uuid4

import pytest
import redis
from django.test import override_settings

from weir.notifications import counters
from weir.notifications.models import Installation
from weir.redis_link import keys
from weir.redis_link.keys import Keys


def keys_of_neighbours() -> list[Keys]:
    """Return the keys that two others would have: with another row in `Installation`, and with another prefix."""
    installation = Installation.objects.get()
    found = []
    try:
        Installation.objects.update(name=uuid4())
        keys.forget()
        found.append(keys.keys())
    finally:
        installation.save()
        keys.forget()
    with override_settings(WEIR_REDIS_PREFIX="weir2"):
        found.append(keys.keys())
    return found


@contextmanager
def being(neighbour: Keys) -> Iterator[None]:
    """Make this process use the keys of this installation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters, "keys", lambda: neighbour)
        yield


def _add(_valkey: Any, user: int, delta: int) -> None:
    counters.add({user: delta})


def _open(*_how: Any) -> None:
    counters.open_epoch(0)


def _come_back_older(*_how: Any) -> None:
    counters.open_epoch(0, replacing=counters.open_epoch(0))


def _seal(*_how: Any) -> None:
    counters.seal()


def _flush(*_how: Any) -> None:
    if sealed := counters.seal():
        counters.read(sealed.epoch)
        counters.drop(sealed.epoch)


def _lose(valkey: redis.Redis, *_how: Any) -> None:
    ours: Callable[[], Keys] = vars(counters)["keys"]  # those of the neighbour
    valkey.delete(*ours())


ACTS: Final[tuple[Callable[[Any, int, int], None], ...]] = (_add, _open, _come_back_older, _seal, _flush, _lose)
