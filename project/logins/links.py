"""Links that log a person in: once, within a minute, and from this host only.

A link is made in a shell on this host, and that shell can do more than any page. The database stores only a hash of
each link, from which the link cannot be made.
"""

import hashlib
import secrets
from datetime import timedelta
from typing import Final, TypeVar

from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Permission, User
from django.db import router, transaction
from django.db.models import Model, Q, QuerySet
from django.urls import reverse

from project.logins.models import Link
from weir.postgres.statements import Statement

GOOD_FOR: Final = timedelta(minutes=1)
OPERATOR: Final = "operator"  # the user whom a link logs in: has no password, and may see the operators' pages
Row = TypeVar("Row", bound=Model)


class NotOurs(Exception):
    """A user OPERATOR exists whom Weir has not made; the text says what to do."""


MAKE_LINK = Statement("make_link", commits=False)
USE_LINK = Statement("use_link", returns=int, commits=False)


def make(base: str) -> str:
    """Return a link that logs the user OPERATOR in to the pages at `base`; create the user if there is none.

    Raises NotOurs.
    """
    token = secrets.token_urlsafe(32)
    parameters = {"token_hash": _hash(token), "user": operator().pk, "good_for": GOOD_FOR}
    MAKE_LINK(**parameters)
    return base + reverse("sign-in-by-link", args=[token])


def use(token: str) -> User | None:
    """Use the token up, and return its user; None for a token that is used, too old, or unknown.

    If two requests use one token at the same time, one of them gets the user, the other None.
    """
    user_ids = USE_LINK(token_hash=_hash(token))
    return _written(get_user_model()).filter(pk=user_ids[0], is_active=True).first() if user_ids else None


def forget_all(**_signal: object) -> None:
    """Delete all links, because PostgreSQL has gone back in time, and may have links again that were used."""
    Link.objects.all().delete()


def operator() -> User:
    """Return the user OPERATOR. If there is none, create it with the permission to see the operators' pages.

    A user who exists gains nothing: any visitor may have registered this name first. Raises NotOurs if Weir has not
    made the user.
    """
    users = get_user_model()
    with transaction.atomic(using=router.db_for_write(users)):  # the user and the permission commit together
        found = {users.USERNAME_FIELD: OPERATOR}
        user, is_new = users.objects.get_or_create({"password": make_password(None)}, **found)
        if is_new:
            user.user_permissions.add(_may_view().get())
    if not is_new and (differs := _differs(user)):
        raise NotOurs(
            f"There is a user {OPERATOR!r} that {differs}, which Weir's own never is: no link signs in as that user. "
            "Rename or delete that user, or sign in as one of your own."
        )
    return user


def _differs(user: User) -> str:
    """Return how a user differs from the one that Weir makes; "" if the user does not differ."""
    if user.has_usable_password():
        return "has a password"
    if user.is_superuser or user.is_staff:
        return "is staff"
    may_view = user.is_active and _may_view().filter(Q(user=user) | Q(group__user=user)).exists()
    return "" if may_view else "may not see the operators' pages"


def _may_view() -> QuerySet[Permission]:
    return _written(Permission).filter(content_type__app_label="weir_ops", codename="view")


def _written(model: type[Row]) -> QuerySet[Row]:
    """Return rows of a model of Django or the project from the primary: a router may send reads to a replica."""
    return model._default_manager.using(router.db_for_write(model))  # noqa: SLF001  documented


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()
