"""The pytest plugin `weir`: the helpers of `weir.testing` as fixtures.

The plugin imports the rest of Weir, and Django, only when a test runs in a project that has Weir's apps installed. In
other projects it does nothing. `-p no:weir` turns the plugin off.
"""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from weir import testing

if TYPE_CHECKING:
    from django.core.mail import EmailMessage

    from weir.testing import CapturedFetches
    from weir.workers.effects.models import Effect

MARK = "weir_servers"


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark `weir_servers`."""
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
def captured_fetches(db: None) -> Iterator["CapturedFetches"]:  # noqa: ARG001  for its effect
    """Return the requested fetches: `captured_fetches.urls`, `captured_fetches.answer(url, 200, b"...")`."""
    with testing.captured_fetches() as fetches:
        yield fetches


@pytest.fixture
def performed_effects(db: None) -> Iterator[list["Effect"]]:  # noqa: ARG001  as above
    """Return the effects that were performed: those that are due are, when a transaction commits."""
    with testing.performed_effects() as effects:
        yield effects


@pytest.fixture
def sent_emails(db: None) -> Iterator[list["EmailMessage"]]:  # noqa: ARG001  as above
    """Return `django.core.mail.outbox`, into which e-mails that are due are sent when a transaction commits."""
    with testing.sent_emails() as outbox:
        yield outbox


@pytest.fixture
def throttled_hosts(db: None) -> Iterator[list[str]]:  # noqa: ARG001  as above
    """Return the hosts whose slots `throttle` and throttled tasks take; these do not wait for the slots."""
    with testing.throttled_hosts() as hosts:
        yield hosts


def _is_used() -> bool:
    """Return whether Django is set up, and one of Weir's apps is installed."""
    django: Any = sys.modules.get("django.apps")
    return bool(django and django.apps.ready) and any(
        config.name.partition(".")[0] == "weir" for config in django.apps.get_app_configs()
    )
