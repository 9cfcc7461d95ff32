"""System checks of the environment, and of a project's settings that affect Weir."""

import os
from collections.abc import Iterator
from importlib import import_module
from ipaddress import ip_network
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.checks import CheckMessage, Error, Tags, Warning, register  # noqa: A004  Django's name
from django.db import router
from django.db.models import Model

from project import shared_redis
from project.environment.unknown import unknown

UNKNOWN_VARIABLE = "weir.W003"
WIDEST = {4: 24, 6: 64}  # for each version of IP, the shortest prefix of a network that W008 accepts
_MAPPED = 96  # bits before an IPv4 address in an IPv6 address (RFC 4291)


@register
def variables_are_known(**_kwargs: Any) -> list[CheckMessage]:
    """weir.W003: Weir does not read a variable whose name begins with WEIR_."""
    hint = "Where it is a variable of another version of Weir, nothing has to be done."
    return [Warning(sentence, hint=hint, id=UNKNOWN_VARIABLE) for _, sentence in unknown(os.environ)]


@register
def sessions_are_read_where_they_are_written(**_kwargs: Any) -> list[CheckMessage]:
    """weir.W010: DATABASE_ROUTERS should not send reads of sessions, users and permissions to a replica."""
    models = [get_user_model(), apps.get_model("auth.Permission"), *_of_sessions()]
    read = {model: router.db_for_read(model) for model in models}
    late = [model for model in models if read[model] != router.db_for_write(model)]
    if not late:
        return []
    places = " and ".join(f"{model._meta.label} from {read[model]!r}" for model in late)  # noqa: SLF001  documented
    message = (
        f"DATABASE_ROUTERS reads {places}: while that is behind, who has signed in is asked to do so again, and who "
        "has signed out, or lost a right, is still let in."
    )
    hint = "Have the router return None for the apps auth and sessions."
    return [Warning(message, hint=hint, id="weir.W010")]


@register
def caches_are_beside_the_queues(**_kwargs: Any) -> list[CheckMessage]:
    """weir.W011: a cache should not use the Redis database of Weir or of the broker: `cache.clear()` empties it."""
    return [
        Warning(
            f"CACHES[{alias!r}] is the Redis database of {variable}: cache.clear() deletes {what} there.",
            hint="Give the cache a database of its own, such as redis://HOST:6379/1.",
            id="weir.W011",
        )
        for alias, variable, what in shared_redis.caches()
    ]


@register
def bounds_of_web_are_positive(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E021: WEIR_WEB_REQUESTS and WEIR_WEB_MAX_BODY must be positive, also if a settings module sets them."""
    names = ("WEIR_WEB_REQUESTS", "WEIR_WEB_MAX_BODY")
    sentence = "{} must be greater than 0, but is {}."
    wrong = [(name, value) for name in names if (value := getattr(settings, name)) <= 0]
    return [Error(sentence.format(*found), id="weir.E021") for found in wrong]


@register(Tags.security, deploy=True)
def proxies_are_few(**_kwargs: Any) -> list[CheckMessage]:
    """weir.W008: WEIR_TLS_PROXIES should name no large network: each host in it counts as a proxy, even a client."""
    wide = [text for text in settings.WEIR_TLS_PROXIES if _is_wide(text)]
    hint = "Name the proxies, or have none but them reach the web process, and set X-Forwarded-For anew."
    sentence = "WEIR_TLS_PROXIES has {}, of which every host may say whom it stands for."
    return [Warning(sentence.format(text), hint=hint, id="weir.W008") for text in wide]


def _of_sessions() -> Iterator[type[Model]]:
    """Yield the model of the sessions, if their engine has `get_model_class`, as Django's engines with a table have."""
    store = import_module(settings.SESSION_ENGINE).SessionStore
    if ask := getattr(store, "get_model_class", None):
        yield ask()


def _is_wide(text: str) -> bool:
    network = ip_network(text)
    if getattr(network.network_address, "ipv4_mapped", None):
        return network.prefixlen < _MAPPED + WIDEST[4]
    return network.prefixlen < WIDEST[network.version]
