"""Users who are signed in and may see the operators' pages."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission, User
from django.db.models import QuerySet
from django.test import Client

NAME = "tab-of-benchmark-"


@contextmanager
def signed_in(count: int) -> Iterator[list[str]]:
    """Yield the Cookie headers of `count` users, who exist while the block lasts."""
    may_view = Permission.objects.get(content_type__app_label="weir_ops", codename="view")
    users = get_user_model()
    _all().delete()
    made = [users.objects.create_user(f"{NAME}{number}") for number in range(count)]
    may_view.user_set.add(*made)
    try:
        yield [_cookies(user) for user in made]
    finally:
        _all().delete()


def _all() -> QuerySet[User]:
    return get_user_model().objects.filter(username__startswith=NAME)


def _cookies(user: User) -> str:
    client = Client()
    client.force_login(user)
    return "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())
