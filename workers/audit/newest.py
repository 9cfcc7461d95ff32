"""The newest entries of targets: who made them what they are."""

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from django.db import transaction

from weir.postgres import planner
from weir.postgres.statements import Statement

MOST: Final = 100  # entries of each target that are looked at


class NewestEntry(NamedTuple):
    """The newest entry of a target with one of the actions that were asked for."""

    target: str
    actor: str
    action: str
    why: str
    after: Mapping[str, Any] | None


NEWEST = Statement("newest", row=NewestEntry, commits=False)


def newest(targets: Collection[str], actions: Collection[str]) -> list[NewestEntry]:
    """Return the newest entry of each target with one of these actions, among the target's MOST newest entries.

    One statement, which reads them in the order of an index; none without targets.
    """
    if not targets:
        return []
    with transaction.atomic():
        planner.in_index_order()
        return NEWEST(targets=list(targets), actions=list(actions), most=MOST)
