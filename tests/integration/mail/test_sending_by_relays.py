"""send_due by the relays that settings name."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from demo.fakes import mail_provider
from demo.fakes.mail_provider import MailProvider
from tests.integration.mail.shipments import MARKS, ship, state
from weir.workers.mail import resolving
from weir.workers.mail.models import Act
from weir.workers.mail.phases import EmailState
from weir.workers.mail.sending import runner

pytestmark = MARKS


@pytest.fixture
def provider(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> Iterator[MailProvider]:
    """Return the provider that the settings name as the only relay."""
    with mail_provider.running(tmp_path_factory.mktemp("provider")) as running:
        settings.WEIR_MAIL_RELAYS = [running.url]
        yield running


def test_emails_leave_by_the_provider_that_settings_name(provider: MailProvider) -> None:
    """Once each; EMAIL_HOST, which is there too, gets none."""
    emails = [ship() for _ in range(5)]
    refused = ship("refuse")
    assert runner.send_due().sent == len(emails)
    assert {state(email) for email in emails} == {(EmailState.SENT, 1)}
    assert provider.received() == {email.message_id: 1 for email in emails}
    assert state(refused) == (EmailState.FAILED, 1)
    assert "422 validation_error" in refused.last_reply


def test_an_email_that_came_back_is_sent_again_when_it_is_ordered(provider: MailProvider) -> None:
    """Though the provider still knows the key of the first submission, and would send nothing for it."""
    email = ship()
    assert runner.send_due().sent == 1
    for times in (2, 3):
        resolving.resolve(email.pk, Act.BOUNCED, "kim", "5.2.2 full")
        resolving.resolve(email.pk, Act.RESEND, "kim", "There is room now")
        assert runner.send_due().sent == 1
        assert provider.received() == {email.message_id: times}
