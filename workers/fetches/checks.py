"""System checks of the fetch settings."""

from importlib.util import find_spec
from typing import Any, Final

from django.conf import settings as djangos
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004  Django's name

from weir.conf import oauth_clients, settings
from weir.conf.checks import register
from weir.conf.secrets import SecretUnknown, SecretUnusable
from weir.postgres import weir_apps
from weir.signatures.keys import key
from weir.workers.effects import kinds
from weir.workers.fetches.jobs import longest_hold_s
from weir.workers.fetches.models import Fetch
from weir.workers.fetches.once.kinds import is_request
from weir.workers.fetches.robots.user_agent import has_contact

SIGN = "docs/how-to/sign-requests.md says how to make and name keys."
BODIES = "docs/how-to/keep-bodies.md says what it is for."
# Bytes. PostgreSQL sends no value whose text is longer than 1 GiB, and takes no longer statement: it ends the
# connection, as if it were away, and the fetcher would try again for ever.
MOST_IN_POSTGRESQL: Final = 2**28
SERVED = {"default", "staticfiles"}  # Django's own, whose files most projects serve
SHORTEST_LOOKAHEAD, LONGEST_LOOKAHEAD = 1.0, 60.0  # seconds


@register()
def look_ahead_is_within_bounds(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E004: with a look-ahead below dispatch's tick sites run dry; with a long one higher priorities wait."""
    if SHORTEST_LOOKAHEAD <= settings.WEIR_LOOKAHEAD <= LONGEST_LOOKAHEAD:
        return []
    message = (
        f"WEIR_LOOKAHEAD must be at least {SHORTEST_LOOKAHEAD:g} and at most {LONGEST_LOOKAHEAD:g} (seconds), "
        f"but is {settings.WEIR_LOOKAHEAD}."
    )
    hint = "Dispatch runs once a second and must reserve further ahead; a higher priority waits for what is reserved."
    return [Error(message, hint=hint, id="weir.E004")]


@register()
def user_agent_fits_into_a_header(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E013: WEIR_FETCH_USER_AGENT must be printable ASCII: sites read other characters in different ways."""
    user_agent = settings.WEIR_FETCH_USER_AGENT
    if user_agent.isascii() and user_agent.isprintable():
        return []
    message = f"WEIR_FETCH_USER_AGENT must be printable ASCII, on one line, but is {user_agent!a}."
    return [Error(message, hint="Write ShopBot/1.0 (+https://shop.example/bot).", id="weir.E013")]


@register(deploy=True)
def user_agent_has_contact(**_kwargs: Any) -> list[CheckMessage]:
    """weir.W002: WEIR_FETCH_USER_AGENT should name a contact, so that a site's operator can write before blocking."""
    if has_contact(settings.WEIR_FETCH_USER_AGENT):
        return []
    message = f"WEIR_FETCH_USER_AGENT names no contact: {settings.WEIR_FETCH_USER_AGENT!r}."
    hint = "Write a name, and a web page or an e-mail address: ShopBot/1.0 (+https://shop.example/bot)."
    return [Warning(message, hint=hint, id="weir.W002")]


@register()
def requests_can_be_signed(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E037: a key of WEIR_SIGNATURE_KEYS cannot sign. weir.W037: this process does not know the secret."""
    agent, names = settings.WEIR_SIGNATURE_AGENT, settings.WEIR_SIGNATURE_KEYS
    if bool(agent) != bool(names):
        given, lacking = "WEIR_SIGNATURE_AGENT", "WEIR_SIGNATURE_KEYS"
        if names:
            given, lacking = lacking, given
        message = f"{given} is set, and {lacking} is not: no request is signed."
        return [Error(message, hint=f"Set both, or neither. {SIGN}", id="weir.E037")]
    found: list[CheckMessage] = []
    for name in names:
        try:
            key(name)
        except SecretUnknown as error:
            found.append(Warning(f"WEIR_SIGNATURE_KEYS: {error}.", hint=SIGN, id="weir.W037"))
        except SecretUnusable as error:
            found.append(Error(f"WEIR_SIGNATURE_KEYS: {error}.", hint=SIGN, id="weir.E037"))
    return found


@register()
def bodies_have_their_storage(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E038: WEIR_FETCH_STORAGE must be a storage, and PostgreSQL must be able to keep all other bodies.

    weir.W039: the storage `default` may serve what is in it.
    """
    alias = settings.WEIR_FETCH_STORAGE
    if alias and alias not in djangos.STORAGES:
        known = ", ".join(sorted(djangos.STORAGES)) or "none"
        message = f"WEIR_FETCH_STORAGE is {alias!r}, and STORAGES has no such storage, but {known}."
        return [Error(message, hint=f"Add it to STORAGES. {BODIES}", id="weir.E038")]
    name = "WEIR_FETCH_STORAGE_FROM" if alias else "WEIR_FETCH_MAX_BODY"
    if min(settings.WEIR_FETCH_MAX_BODY, getattr(settings, name)) > MOST_IN_POSTGRESQL:
        message = f"{name} is {getattr(settings, name)}: PostgreSQL keeps bodies of {MOST_IN_POSTGRESQL} bytes at most."
        return [
            Error(message, hint=f"Lower it{'' if alias else ', or set WEIR_FETCH_STORAGE'}. {BODIES}", id="weir.E038")
        ]
    if alias in SERVED:
        message = f"WEIR_FETCH_STORAGE is {alias!r}: what a stranger's site sent might be served as yours."
        return [Warning(message, hint=f"Add a private storage to STORAGES. {BODIES}", id="weir.W039")]
    return []


@register()
def access_tokens_can_be_kept(**_kwargs: Any) -> list[CheckMessage]:
    """weir.W038: access tokens are encrypted, for which cryptography is needed, where a secret describes a client."""
    if find_spec("cryptography") or not (names := oauth_clients.described()):
        return []
    message = f"Fetchers cannot use the OAuth clients that these secrets describe: {', '.join(names)}."
    return [Warning(message, hint='pip install "django-weir[oauth]"', id="weir.W038")]


@register()
def fetches_can_be_purged(**_kwargs: Any) -> list[CheckMessage]:
    """weir.W033: no foreign key of a project's own may keep fetches that a purge is to delete."""
    return weir_apps.warn_of_holders(
        Fetch, rows="fetches", others="has ended", retention="WEIR_FETCH_RETENTION after their end", id="weir.W033"
    )


@register()
def no_key_is_forgotten_meanwhile(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E043: when a site forgets an Idempotency-Key, no request with this key may be on its way any more."""
    after, longest = settings.WEIR_EFFECT_UNKNOWN_AFTER, longest_hold_s()
    return [
        Error(
            f"Requests of the kind {kind.name} are made again with their key until WEIR_EFFECT_UNKNOWN_AFTER, "
            f"{after:g} s, before the site forgets it, but may be on their way for {longest:g} s.",
            hint="Set WEIR_EFFECT_UNKNOWN_AFTER to more, or WEIR_FETCH_TIMEOUT to less.",
            id="weir.E043",
        )
        for kind in kinds.registered()
        if is_request(kind.name) and kind.key_lifetime and after < longest
    ]
