"""Paces e-mails to recipients' domains: a paced domain is a site of `ratelimit`, named DOMAIN:25.

A domain is paced in three cases: WEIR_MAIL_DOMAIN_RATE is set; a person has set the rate of the domain (`manage.py
sites set DOMAIN:25 5/m`); or the domain's mail server has said that it takes no more for now. In the last case, pacing
ends when the server has not said so for RECOVERED_AFTER.
"""

import time
from collections.abc import Iterable
from datetime import timedelta
from threading import Lock

from django.db import DatabaseError
from django.db.models import Q
from django.db.models.functions import Now

from weir.conf import settings
from weir.logs.loggers import get_logger
from weir.ratelimit import site_names, site_settings
from weir.ratelimit.models import Site
from weir.ratelimit.sites import known_sites, leave_to_purge

# The rate of a domain that has refused e-mails, if no other rate is set. A large provider takes about this much from
# one sender.
RATE_AFTER_REFUSAL = "1/s"
RECOVERED_AFTER = timedelta(hours=1)
PATIENCE_S = 1.0  # how long to wait for a site's row that another transaction has locked
CLAIMED_BEFORE_S = 60.0  # e-mails may have been claimed this long before their domain was backed off

_backed_off: dict[str, float] = {}  # sites of domains that this process has backed off lately, and when
_lock = Lock()

log = get_logger(__name__)


def paced(recipients: Iterable[str]) -> dict[str, str]:
    """Return, by recipient, the sites of those recipients whose domains are paced."""
    names = {recipient: name for recipient in recipients if (name := _site(recipient))}
    if not names:
        return {}
    known = known_sites(set(names.values()))
    if settings.WEIR_MAIL_DOMAIN_RATE:
        for name in set(names.values()) - known.keys():
            site_settings.set_rate(name, settings.WEIR_MAIL_DOMAIN_RATE)
        return names
    counting = _counting(site.id for site in known.values()) if known else set()
    return {recipient: name for recipient, name in names.items() if name in known and known[name].id in counting}


def backed_off_since_claimed(recipient: str) -> str:
    """Return the site of the recipient's domain if this process has just backed it off, or else an empty string."""
    if not _backed_off or not (name := _site(recipient)):
        return ""
    with _lock:
        return name if time.monotonic() - _backed_off.get(name, -CLAIMED_BEFORE_S) < CLAIMED_BEFORE_S else ""


def back_off(recipient: str) -> None:
    """Back off the recipient's domain: e-mails to it wait in all processes, longer after each refusal in a row."""
    if not (name := _site(recipient)):
        return
    try:
        if not known_sites({name}):
            site_settings.set_rate(name, settings.WEIR_MAIL_DOMAIN_RATE or RATE_AFTER_REFUSAL)
            leave_to_purge(name)
        waits_s = site_settings.back_off(name, patience_s=PATIENCE_S)
    except (DatabaseError, site_settings.SiteBusy) as error:  # the next refusal tries again
        log.warning("domain_not_backed_off", site=name, error=str(error))
    else:
        log.warning("domain_backed_off", site=name, seconds=waits_s)
        with _lock:
            for old in [site for site, at in _backed_off.items() if time.monotonic() - at >= CLAIMED_BEFORE_S]:
                del _backed_off[old]
            _backed_off[name] = time.monotonic()


def _counting(ids: Iterable[int]) -> set[int]:
    """Return the ids of those sites whose rate a person has set, or whose mail server has refused e-mails lately."""
    lately = Q(backed_off_until__gt=Now() - RECOVERED_AFTER)
    return set(Site.objects.filter(lately | Q(is_kept=True), pk__in=list(ids)).values_list("pk", flat=True))


def _site(recipient: str) -> str:
    """Return the name of the site of the recipient's domain; an empty string if the address cannot have a site."""
    try:
        return site_names.canonical(f"{recipient.rpartition('@')[2]}:25")
    except site_names.InvalidSiteName:
        return ""
