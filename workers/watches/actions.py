"""What operators change at watches. Each call commits by itself, with its entry in the audit trail.

All raise acting.ActRefused (weir.workers.audit) if the actor is not permitted, and UnknownWatch.
"""

from collections.abc import Mapping
from typing import Any, Final

from django.db import transaction
from django.db.models.functions import Now

from weir.conf.texts.request_headers import written_headers
from weir.workers.audit.acting import Actor, AuditedAction, State
from weir.workers.watches.listing import UnknownWatch, as_data
from weir.workers.watches.models import Watch
from weir.workers.watches.watching import hash_of, watch

MAY_CHANGE: Final = "weir_watches.change_watch"
ADD: Final = AuditedAction("watches.add", MAY_CHANGE)
REMOVE: Final = AuditedAction("watches.remove", MAY_CHANGE)
PAUSE: Final = AuditedAction("watches.pause", MAY_CHANGE)
RESUME: Final = AuditedAction("watches.resume", MAY_CHANGE)
SETTINGS: Final = (
    "url", "every_s", "jitter", "shortest_s", "longest_s", "priority", "revalidate", "tell_first", "on_change",
    "share",
)  # fmt: skip


def add(actor: Actor, url: str, *, why: str = "", **options: Any) -> Watch:
    """Watch a URL, or change its watch, as `watch` does."""
    ADD.allow(actor, why)
    key = hash_of(options.get("key") or url)
    with transaction.atomic(durable=True):
        before = Watch.objects.select_for_update().filter(dedupe_key=key).first()
        after = watch(url, **options)
        if before is None or _settings(before) != _settings(after):
            ADD.record(actor, _named(after), why, before=_settings(before) if before else None, after=_settings(after))
    return after


def remove(actor: Actor, watch_id: int, *, why: str = "") -> None:
    """Remove a watch; a fetch of it that is unfinished ends, and calls nothing."""
    REMOVE.allow(actor, why)
    with transaction.atomic(durable=True):
        found = _locked(watch_id)
        REMOVE.record(actor, _named(found), why, before=_settings(found), after=None)
        found.delete()


def pause(actor: Actor, watch_id: int, *, why: str = "") -> None:
    """Ask for the page no more, until the watch is resumed."""
    PAUSE.allow(actor, why)
    with (
        transaction.atomic(durable=True),
        PAUSE.recorded(actor, _named(_locked(watch_id)), why, state=lambda: _waits(watch_id)),
    ):
        Watch.objects.filter(pk=watch_id).update(next_at=None)


def resume(actor: Actor, watch_id: int, *, why: str = "") -> None:
    """Ask for the page of a paused watch now, and again in each period."""
    RESUME.allow(actor, why)
    with (
        transaction.atomic(durable=True),
        RESUME.recorded(actor, _named(_locked(watch_id)), why, state=lambda: _waits(watch_id)),
    ):
        Watch.objects.filter(pk=watch_id, next_at=None).update(next_at=Now())


def _locked(watch_id: int) -> Watch:
    if (found := Watch.objects.select_for_update().filter(pk=watch_id).first()) is None:
        raise UnknownWatch(watch_id)
    return found


def _named(watch: Watch) -> str:
    return f"watch {watch.pk}"


def _waits(watch_id: int) -> State:
    return {"paused": Watch.objects.filter(pk=watch_id, next_at=None).exists()}


def _settings(watch: Watch) -> Mapping[str, object]:
    data = as_data(watch)
    return {**{name: data[name] for name in SETTINGS}, "headers": written_headers(watch.request_headers or {})}
