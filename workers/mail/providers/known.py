"""The providers whose webhooks Weir understands, each with the secret by which their requests are recognised."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from weir.workers.mail.providers import mailgun, postmark, resend, sendgrid
from weir.workers.mail.providers.received import ProviderEvents, Received


class Provider(NamedTuple):
    """A provider that sends webhooks."""

    title: str
    secret: str  # the name of the secret (weir.conf.secrets)
    keys: Callable[[str], Any]  # the keys in this secret. Raises SecretUnusable
    read: Callable[[Any, Received], ProviderEvents]  # what a request says. Raises Unsigned and Unreadable


PROVIDERS: Final = {
    "resend": Provider("Resend", "RESEND_WEBHOOK", resend.keys, resend.read),
    "mailgun": Provider("Mailgun", "MAILGUN_WEBHOOK", mailgun.keys, mailgun.read),
    "postmark": Provider("Postmark", "POSTMARK_WEBHOOK", postmark.keys, postmark.read),
    "sendgrid": Provider("SendGrid", "SENDGRID_WEBHOOK", sendgrid.keys, sendgrid.read),
}
