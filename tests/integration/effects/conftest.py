"""What tests of effects share: the fake payment API."""

from collections.abc import Iterator

import pytest

from tests import payments
from tests.payments import PaymentApi


@pytest.fixture
def api() -> Iterator[PaymentApi]:
    """Run an API that keeps keys."""
    with payments.running() as running:
        yield running
