"""How often a password may be tried: by an address, and for an account; and who cannot lock out whom."""

from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import aauthenticate, authenticate
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in
from django.core.exceptions import PermissionDenied
from django.db import connection, transaction
from django.http import HttpRequest

from project.logins import gate, throttle
from project.logins.models import KnownAddress, Rate
from tests.integration.conftest import InThreads

pytestmark = pytest.mark.django_db(transaction=True)


def request_from(address: str) -> HttpRequest:
    request = HttpRequest()
    request.META["REMOTE_ADDR"] = address
    return request


def let_through(attempts: int, address: str, username: str) -> int:
    return sum(throttle.take(address, username) == 0 for _ in range(attempts))


def pass_time(length: timedelta) -> None:
    """Move all clocks back, instead of waiting."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE weir_logins_rate SET next_attempt = next_attempt - make_interval(secs => %s)",
            [length.total_seconds()],
        )


def log_in(username: str, address: str) -> None:
    user = User.objects.get_or_create(username=username)[0]
    user_logged_in.send(User, request=request_from(address), user=user)


def test_an_address_has_ten_attempts_at_once_then_one_each_half_minute() -> None:
    """For whichever accounts; what is refused does not put it off further."""
    assert sum(let_through(1, "a", f"user {n}") for n in range(20)) == 10
    assert 25 < throttle.take("a", "user") <= 30
    pass_time(timedelta(seconds=30))
    assert let_through(2, "a", "user") == 1
    pass_time(timedelta(hours=1))
    assert let_through(20, "a", "user") == 10


def test_an_account_has_thirty_attempts_at_once_then_one_each_ten_seconds() -> None:
    """From however many addresses."""
    assert sum(let_through(1, f"a{n}", "root") for n in range(40)) == 30
    assert 5 < throttle.take("b", "root") <= 10
    assert let_through(1, "c", "somebody else") == 1
    pass_time(timedelta(seconds=10))
    assert sum(let_through(1, f"d{n}", "root") for n in range(2)) == 1


def test_one_address_does_not_lock_an_account() -> None:
    """However long it goes on: what its own clock refuses does not count against the account."""
    for _ in range(20):
        let_through(20, "stranger", "root")
        assert let_through(1, "owner", "root") == 1
        pass_time(timedelta(seconds=30))


def test_nobody_locks_an_account_where_its_owner_works() -> None:
    """From an address where it has logged in, it goes on logging in while strangers use up its attempts."""
    log_in("root", "192.0.2.1")
    assert sum(let_through(1, f"a{n}", "root") for n in range(40)) == 30
    assert let_through(1, "192.0.2.1/32", "root") == 1
    assert let_through(1, "192.0.2.2/32", "root") == 0
    KnownAddress.objects.update(known_until="2020-01-01T00:00Z")
    assert let_through(1, "192.0.2.1/32", "root") == 0


def test_many_at_once_are_no_way_around(in_threads: InThreads) -> None:
    """An attempt is counted before the password is looked at."""
    assert in_threads(20, lambda _: throttle.take("a", "root") == 0).count(True) == 10


def test_what_a_transaction_rolls_back_is_counted() -> None:
    """With ATOMIC_REQUESTS a page that fails after the password was tried would count nothing."""
    with transaction.atomic():
        assert let_through(10, "a", "root") == 10
        transaction.set_rollback(True)
    assert let_through(1, "a", "root") == 0


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1/32"),
        ("::ffff:192.0.2.1", "192.0.2.1/32"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("", ""),
        ("unix:", ""),
    ],
)
def test_an_address_is_what_one_subscriber_has(address: str, network: str) -> None:
    """Of IPv6 that is a network: who has one has very many addresses."""
    assert throttle.network_of(request_from(address)) == network


def test_clients_without_an_address_share_no_clock() -> None:
    """Behind a Unix socket they would lock each other out."""
    assert sum(let_through(1, "", f"user {n}") for n in range(40)) == 40


def test_names_are_not_kept() -> None:
    """People type passwords where names belong."""
    throttle.take("a", "s3cret")
    log_in("s3cret", "192.0.2.1")
    keys = [*Rate.objects.values_list("key", flat=True), *KnownAddress.objects.values_list("key", flat=True)]
    assert len(keys) == 3
    assert "s3cret" not in "".join(keys)


def test_tables_stay_small() -> None:
    """Each attempt deletes what says nothing any more: a clock that has run out, an address of long ago."""
    for number in range(50):
        throttle.take(f"a{number}", f"user {number}")
        log_in(f"user {number}", f"192.0.2.{number}")
    pass_time(timedelta(minutes=1))
    KnownAddress.objects.update(known_until="2020-01-01T00:00Z")
    throttle.take("b", "root")
    log_in("root", "198.51.100.1")
    assert (Rate.objects.count(), KnownAddress.objects.count()) == (2, 1)


def test_an_account_may_be_named_by_another_field(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of users of one's own may have them log in by their e-mail addresses."""
    monkeypatch.setattr(User, "USERNAME_FIELD", "email")
    let_through(20, "192.0.2.1/32", "somebody else")
    with pytest.raises(PermissionDenied):
        gate.Gate().authenticate(request_from("192.0.2.1"), email="a@shop.example")


def test_every_way_to_log_in_is_throttled() -> None:
    """Pages of other apps, too, also where they are asynchronous; code that has no request is not."""
    User.objects.create_user("root", password="right")  # noqa: S106  of this test alone
    credentials = {"username": "root", "password": "right"}
    request = request_from("192.0.2.1")
    assert authenticate(request, **credentials)
    let_through(20, "192.0.2.1/32", "root")
    assert authenticate(request, **credentials) is None
    assert async_to_sync(aauthenticate)(request, **credentials) is None
    assert authenticate(None, **credentials)
