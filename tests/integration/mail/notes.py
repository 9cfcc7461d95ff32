"""A kind of e-mail that an app has registered, for tests of the outbox."""

from typing import Any

import pytest

from weir.workers.mail import kinds, outbox
from weir.workers.mail.kinds import Content
from weir.workers.mail.models import Email


@pytest.fixture
def note_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the kind `note`, as an app would; its context has its text and its subject."""
    monkeypatch.setattr(kinds, "_kinds", dict(kinds._kinds))

    @kinds.register("note")
    def note(*, text: str = "Hello", subject: str = "Note") -> Content:
        return Content(subject=subject, text=text)


def note(key: str = "17", **changes: Any) -> Email:
    """Queue a note."""
    return outbox.send_once("note", key, **{"to": "kim@customers.example", **changes})
