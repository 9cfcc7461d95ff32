"""The pytest plugin `weir`: what `weir.testing` has, as fixtures.

It imports nothing of Weir or Django before a test runs in a project that has Weir's apps installed; in other projects
it does nothing. `-p no:weir` leaves it out.
"""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from weir import testing

if TYPE_CHECKING:
    from django.core.mail import EmailMessage

    from weir.testing import CapturedFetches

MARK = "weir_servers"


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest about the mark."""
    config.addinivalue_line("markers", f"{MARK}: Weir asks the broker and the Redis of the settings in this test")


@pytest.fixture(autouse=True)
def _weir_without_servers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep Weir from asking a broker or Redis, and from waiting for slots, except in tests marked `weir_servers`."""
    if request.node.get_closest_marker(MARK) or not _is_used():
        yield
        return
    with testing.without_servers():
        yield


@pytest.fixture
def captured_fetches(db: None) -> Iterator["CapturedFetches"]:  # noqa: ARG001  asked for its effect
    """Return the fetches that are asked for: `captured_fetches.urls`, `captured_fetches.answer(url, 200, b"...")`."""
    with testing.captured_fetches() as fetches:
        yield fetches


@pytest.fixture
def sent_emails(db: None) -> Iterator[list["EmailMessage"]]:  # noqa: ARG001  as above
    """Return `django.core.mail.outbox`, into which e-mails that are due are sent when a transaction commits."""
    with testing.sent_emails() as outbox:
        yield outbox


@pytest.fixture
def throttled_hosts(db: None) -> Iterator[list[str]]:  # noqa: ARG001  as above
    """Return the hosts whose slots `throttle` and throttled tasks take; nothing is waited for."""
    with testing.throttled_hosts() as hosts:
        yield hosts


def _is_used() -> bool:
    """Return whether Django is set up, in this project, with an app of Weir's."""
    django: Any = sys.modules.get("django.apps")
    return bool(django and django.apps.ready) and any(
        config.name.partition(".")[0] == "weir" for config in django.apps.get_app_configs()
    )
