"""The mail server: whether it accepts the connection and the login. No e-mail is sent."""

from functools import partial

from django.conf import settings
from django.core.mail.backends import smtp
from django.utils.module_loading import import_string

from project.doctor.findings import Check, Level, Verdict, good, not_checked, warning, wrong
from project.environment.variables import Variables
from weir.conf import UnreadableSetting
from weir.workers.mail.transports import mail_server, relays
from weir.workers.mail.transports.base import Unreachable
from weir.workers.mail.transports.relays import Relay

CONNECT_WITHIN_S = 3.0
STEP_S = 1.0  # for each step of the SMTP conversation

PLACEHOLDER = str(Variables.model_fields["DEFAULT_FROM_EMAIL"].default)
NO_SERVER = str(Variables.model_fields["EMAIL_HOST"].default)


def sender(address: str) -> Verdict:
    """Judge whether DEFAULT_FROM_EMAIL is still the placeholder; Django's checks say whether it is an address."""
    if address == PLACEHOLDER:
        return warning(
            f"DEFAULT_FROM_EMAIL is {PLACEHOLDER}, which mail servers refuse: set it to an address of yours."
        )
    return good(f"E-mails come from {address}.")


def server(place: str, failure: str) -> Verdict:
    """Judge the SMTP conversation with the server at `place`, which failed if `failure` is not empty."""
    if not failure:
        return good(f"The mail server {place} lets us in.")
    if mail_server.of_settings().host == NO_SERVER:
        return warning(f"No mail server lets us in at {place}, so e-mails wait ({failure}): set EMAIL_HOST to yours.")
    return wrong(
        f"The mail server {place} does not let us in, so e-mails wait ({failure}): check EMAIL_HOST, EMAIL_PORT, "
        "EMAIL_USE_TLS or EMAIL_USE_SSL, EMAIL_HOST_USER and EMAIL_HOST_PASSWORD."
    )


def _converse() -> Verdict:
    """Connect to the mail server with the TLS and the login of the settings, and close the connection."""
    path = mail_server.of_settings().backend
    if not issubclass(import_string(path), smtp.EmailBackend):
        return not_checked(f"{path} is not a backend for SMTP.")
    connection = mail_server.backend()
    connection.timeout = STEP_S
    try:
        connection.open()
        connection.connection.ehlo_or_helo_if_needed()
    except OSError as error:  # errors of smtplib, ssl and DNS are OSErrors, too
        return server(relays.server_name(), f"{type(error).__name__}: {error}".rstrip("."))
    finally:
        connection.close()
    return server(relays.server_name(), "")


def _reach(relay: Relay) -> Verdict:
    """Connect to one of WEIR_MAIL_RELAYS, log in if the relay speaks SMTP, and close the connection."""
    if not relay.place:
        return not_checked(f"{relay.name} cannot be asked without an e-mail.")
    transport = relay.new()
    try:
        transport.connect()
    except Unreachable as error:
        return wrong(
            f"The relay {relay.name} does not let us in, so e-mails wait or take another ({error}): check "
            "WEIR_MAIL_RELAYS."
        )
    finally:
        transport.close()
    return good(f"The relay {relay.name} answers.")


def checks() -> list[Check]:
    """Return the checks of this theme."""
    from_us = Check(name="sender", ask=partial(sender, settings.DEFAULT_FROM_EMAIL))
    try:
        urls = relays.urls()
    except UnreadableSetting:
        return [from_us]  # Django's checks say what is wrong (weir.E030)
    if urls:
        reaches = [partial(_reach, relay) for relay in relays.relays()]
        return [*(Check(name="relay", ask=reach, within_s=CONNECT_WITHIN_S) for reach in reaches), from_us]
    at_worst = Level.WARNING if mail_server.of_settings().host == NO_SERVER else Level.WRONG
    return [
        Check(name="mail server", ask=_converse, within_s=CONNECT_WITHIN_S, at_worst=at_worst),
        from_us,
    ]
