"""What operators change at sites. Each call commits by itself, with its entry in the audit trail (weir.workers.audit).

All raise acting.ActRefused if the actor is not permitted, and the errors that weir.ratelimit.site_settings raises.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, Final

from weir.ratelimit import site_names, site_settings, sites
from weir.ratelimit.changing.declared import SETTINGS
from weir.ratelimit.models import Site
from weir.workers import task_names
from weir.workers.audit.acting import Actor, AuditedAction, State
from weir.workers.fetches import strays
from weir.workers.fetches.maintenance import deleted_sites
from weir.workers.fetches.models import RobotsFile
from weir.workers.fetches.robots import crawl_delays, files
from weir.workers.publish import publish

MAY_CHANGE: Final = "weir_ratelimit.change_site"
SET: Final = AuditedAction("sites.set", MAY_CHANGE)
PAUSE: Final = AuditedAction("sites.pause", MAY_CHANGE)
RESUME: Final = AuditedAction("sites.resume", MAY_CHANGE)
DELETE: Final = AuditedAction("sites.delete", MAY_CHANGE)
ASK_ROBOTS: Final = AuditedAction("sites.ask_robots", "weir_fetches.change_robotsfile")


def set_rate(
    actor: Actor, host: str, rate: str | None = None, *, why: str = "", seen: str | None = None, **settings: Any
) -> Mapping[str, object]:
    """Create a site, or change its settings, as site_settings.set_rate does; `seen` is the version to be changed.

    Returns the settings of the site right after the change, before any later change by others.
    """
    SET.allow(actor, why)
    name = site_names.canonical(host)
    set_to: list[Mapping[str, object]] = []

    @contextmanager
    def within() -> Iterator[None]:
        with SET.recorded(actor, name, why, state=partial(_settings_of, name), seen=seen):
            yield
        set_to[:] = [_settings_of(name) or {}]

    site_settings.set_rate(host, rate, **settings, within=within)
    strays.follow_all(0)
    crawl_delays.settle(Site.objects.filter(name=name).values_list("pk", flat=True))  # the site may obey again
    publish(task_names.DISPATCH)  # fetches whose slots were recalled get new ones immediately
    return set_to[0]


def all_settings(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of `set_rate` that give a site exactly these settings; for a value of None, the default."""
    settings = {setting.name: values[setting.name] for setting in SETTINGS}
    return {name: site_settings.DEFAULT if value is None else value for name, value in settings.items()}


def pause(actor: Actor, host: str, duration: timedelta | None = None, *, why: str = "") -> None:
    """Pause a site: nothing starts there for `duration`, or until the site is resumed."""
    PAUSE.allow(actor, why)
    name = site_names.canonical(host)
    within = partial(PAUSE.recorded, actor, name, why, state=partial(_waits_of, name))
    site_settings.pause(host, duration, within=within)


def resume(actor: Actor, host: str, *, why: str = "") -> None:
    """End a pause and a back-off of a site."""
    RESUME.allow(actor, why)
    name = site_names.canonical(host)
    site_settings.resume(host, within=partial(RESUME.recorded, actor, name, why, state=partial(_waits_of, name)))
    publish(task_names.DISPATCH)


def delete(actor: Actor, host: str, *, why: str = "") -> None:
    """Forget a site that nothing needs any more, as deleted_sites.delete does."""
    DELETE.allow(actor, why)
    name = site_names.canonical(host)
    deleted_sites.delete(host, within=partial(DELETE.recorded, actor, name, why, state=partial(_settings_of, name)))


def ask_robots(actor: Actor, origins: list[str], *, why: str = "") -> int:
    """Forget what is known of the robots.txt of these origins, and ask again; returns how many of them were known."""
    ASK_ROBOTS.allow(actor, why)
    note = partial(ASK_ROBOTS.record, actor, why=why, before=None)
    return files.ask_again(origins, note=lambda found: note(target=", ".join(found), after={"asked": len(found)}))


def origins_of(host: str) -> list[str]:
    """Return the origins of a site whose robots.txt is known."""
    return list(RobotsFile.objects.filter(site__name=site_names.canonical(host)).values_list("origin", flat=True))


def settings_of(site: Site) -> Mapping[str, object]:
    """Return the settings of a site as the audit trail has them. Their version (acting.version) is that of the site."""
    return {"rate": site.rate, **{setting.name: getattr(site, setting.name) for setting in SETTINGS}}


def _settings_of(name: str) -> State:
    site = sites.locked(name)
    return None if site is None else settings_of(site)


def _waits_of(name: str) -> State:
    if (site := sites.locked(name)) is None:
        return None
    return {"paused_until": site.paused_until, "backed_off_until": site.backed_off_until}
