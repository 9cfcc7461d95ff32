"""Recipients' domains that take no more than so many e-mails: each is a site of `ratelimit`, named DOMAIN:25.

A domain is one when WEIR_MAIL_DOMAIN_RATE is set, when somebody has set its rate (`manage.py sites set DOMAIN:25 5/m`), or
once its mail server has said that it takes no more for now.
"""

from collections.abc import Iterable

import structlog
from django.conf import settings
from django.db import DatabaseError

from ratelimit import site_names, site_settings
from ratelimit.sites import known_sites

# Of a domain that has refused, where no other is set: about what one sender may send to a large provider.
RATE_AFTER_REFUSAL = "1/s"
PATIENCE_S = 1.0  # for a site's row that others have locked

log = structlog.get_logger(__name__)


def paced(recipients: Iterable[str]) -> dict[str, str]:
    """Return the sites of those recipients whose domains are paced, by recipient."""
    names = {recipient: name for recipient in recipients if (name := _site(recipient))}
    if not names:
        return {}
    known = known_sites(set(names.values()))
    if settings.WEIR_MAIL_DOMAIN_RATE:
        for name in set(names.values()) - known.keys():
            site_settings.set_rate(name, settings.WEIR_MAIL_DOMAIN_RATE)
        return names
    return {recipient: name for recipient, name in names.items() if name in known}


def back_off(recipient: str) -> None:
    """Have e-mails to the recipient's domain wait, in all processes, longer with each refusal in a row."""
    if not (name := _site(recipient)):
        return
    try:
        if not known_sites({name}):
            site_settings.set_rate(name, settings.WEIR_MAIL_DOMAIN_RATE or RATE_AFTER_REFUSAL)
        waits_s = site_settings.back_off(name, patience_s=PATIENCE_S)
    except (DatabaseError, site_settings.SiteBusy) as error:  # the next refusal tries again
        log.warning("domain_not_backed_off", site=name, error=str(error))
    else:
        log.warning("domain_backed_off", site=name, seconds=waits_s)


def _site(recipient: str) -> str:
    """Return the name of the site; empty for an address that cannot have one."""
    try:
        return site_names.canonical(f"{recipient.rpartition('@')[2]}:25")
    except site_names.InvalidSiteName:
        return ""
