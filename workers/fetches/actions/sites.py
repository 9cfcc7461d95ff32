"""What operators change at sites. Each call commits by itself, with its entry in the audit trail (weir.workers.audit).

All raise acting.ActRefused if the actor is not permitted, and the errors that weir.ratelimit.site_settings raises.
`seen` is the version of the site that the actor has looked at (version_of): if the site was changed since, they raise
acting.Changed. None stands for any version.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, Final

from weir.ratelimit import site_names, site_settings, sites
from weir.ratelimit.changing.declared import SETTINGS
from weir.ratelimit.models import Site
from weir.workers import task_names
from weir.workers.audit import acting
from weir.workers.audit.acting import Actor, AuditedAction, State
from weir.workers.fetches import strays
from weir.workers.fetches.maintenance import deleted_sites
from weir.workers.fetches.models import RobotsFile
from weir.workers.fetches.reports import holds
from weir.workers.fetches.robots import crawl_delays, files
from weir.workers.publish import publish

MAY_CHANGE: Final = "weir_ratelimit.change_site"
SET: Final = AuditedAction("sites.set", MAY_CHANGE)
PAUSE: Final = AuditedAction(holds.PAUSE, MAY_CHANGE)
RESUME: Final = AuditedAction(holds.RESUME, MAY_CHANGE)
DELETE: Final = AuditedAction("sites.delete", MAY_CHANGE)
ASK_ROBOTS: Final = AuditedAction("sites.ask_robots", "weir_fetches.change_robotsfile")


def set_rate(
    actor: Actor, host: str, rate: str | None = None, *, why: str = "", seen: str | None = None, **settings: Any
) -> Site:
    """Create a site, or change its settings, as site_settings.set_rate does.

    Returns the site as it is right after the change, before any later change by others.
    """
    SET.allow(actor, why)
    name = site_names.canonical(host)
    set_to: list[Site] = []

    @contextmanager
    def within() -> Iterator[None]:
        with _changed(SET, actor, name, why, seen=seen, state=settings_of):
            yield
        set_to.extend(filter(None, [sites.locked(name)]))

    site_settings.set_rate(host, rate, **settings, within=within)
    strays.follow_all(0)
    crawl_delays.settle(Site.objects.filter(name=name).values_list("pk", flat=True))  # the site may obey again
    publish(task_names.DISPATCH)  # fetches whose slots were recalled get new ones immediately
    return set_to[-1]


def all_settings(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of `set_rate` that give a site exactly these settings; for a value of None, the default."""
    settings = {setting.name: values[setting.name] for setting in SETTINGS}
    return {name: site_settings.DEFAULT if value is None else value for name, value in settings.items()}


def pause(
    actor: Actor, host: str, duration: timedelta | None = None, *, why: str = "", seen: str | None = None
) -> None:
    """Pause a site: nothing starts there for `duration`, or until the site is resumed."""
    PAUSE.allow(actor, why)
    name = site_names.canonical(host)
    site_settings.pause(host, duration, within=partial(_changed, PAUSE, actor, name, why, seen=seen, state=_waits_of))


def resume(actor: Actor, host: str, *, why: str = "", seen: str | None = None) -> None:
    """End a pause and a back-off of a site."""
    RESUME.allow(actor, why)
    name = site_names.canonical(host)
    site_settings.resume(host, within=partial(_changed, RESUME, actor, name, why, seen=seen, state=_waits_of))
    publish(task_names.DISPATCH)


def delete(actor: Actor, host: str, *, why: str = "") -> None:
    """Forget a site that nothing needs any more, as deleted_sites.delete does."""
    DELETE.allow(actor, why)
    name = site_names.canonical(host)
    deleted_sites.delete(host, within=partial(_changed, DELETE, actor, name, why, seen=None, state=settings_of))


def ask_robots(actor: Actor, origins: list[str], *, why: str = "") -> int:
    """Forget what is known of the robots.txt of these origins, and ask again; returns how many of them were known."""
    ASK_ROBOTS.allow(actor, why)
    note = partial(ASK_ROBOTS.record, actor, why=why, before=None)
    return files.ask_again(origins, note=lambda found: note(target=", ".join(found), after={"asked": len(found)}))


def origins_of(host: str) -> list[str]:
    """Return the origins of a site whose robots.txt is known."""
    return list(RobotsFile.objects.filter(site__name=site_names.canonical(host)).values_list("origin", flat=True))


def settings_of(site: Site) -> Mapping[str, object]:
    """Return the settings of a site as the audit trail has them."""
    return {"rate": site.rate, **{setting.name: getattr(site, setting.name) for setting in SETTINGS}}


def version_of(site: Site | None) -> str:
    """Return the version of a site: the same for the same settings and the same pause. A back-off does not change it.

    None is a site that does not exist.
    """
    return acting.version(None if site is None else {**settings_of(site), "paused_until": site.paused_until})


@contextmanager
def _changed(
    action: AuditedAction, actor: Actor, name: str, why: str, *, seen: str | None, state: Callable[[Site], State]
) -> Iterator[None]:
    """Record what the block changes at the site. Raises acting.Changed if the site has another version than `seen`."""

    def found() -> State:
        return None if (site := sites.locked(name)) is None else state(site)

    acting.refuse_changed(name, version_of(sites.locked(name)), seen)
    with action.recorded(actor, name, why, state=found):
        yield


def _waits_of(site: Site) -> State:
    return {"paused_until": site.paused_until, "backed_off_until": site.backed_off_until}
