"""The key by which a provider knows an e-mail."""

import pytest
from pytest_django import Settings

from weir.workers.mail import renderings
from weir.workers.mail.models import Email, Rendering
from weir.workers.mail.rendering import message_id


@pytest.mark.parametrize("provider_id", ["", "accepted-before"])
def test_a_key_is_never_longer_than_providers_take(settings: Settings, provider_id: str) -> None:
    """However long kind, key and domain are: the same in each attempt, and another one for another content."""
    settings.DEFAULT_FROM_EMAIL = f"orders@{'d' * 60}.{'e' * 60}.example"
    identity = message_id("k" * 100, "x" * 100)
    email = Email(message_id=identity, renderings=1, provider_id=provider_id)

    def key() -> str:
        return renderings.message(email, Rendering(content=b"")).idempotency_key

    first = key()
    assert 0 < len(first) <= 256
    assert first.isascii()
    assert key() == first
    email.renderings = 2
    assert key() != first


def test_a_key_that_is_short_enough_can_be_read() -> None:
    """It has the Message-ID, by which an operator finds the e-mail."""
    email = Email(message_id="<note-17-0123456789ab@shop.example>", renderings=1)
    assert renderings.message(email, Rendering(content=b"")).idempotency_key == "note-17-0123456789ab@shop.example/1"
