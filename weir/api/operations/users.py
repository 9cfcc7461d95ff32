"""The operation that forgets a user."""

from typing import Final

from django.http import HttpRequest
from ninja import Router, Status

from weir.api.access import actor
from weir.api.http.problems import INVALID, NO_REASON, READ_ONLY
from weir.api.operations.operation import operation, refused
from weir.api.schemas.notifications import Forgetting, ForgottenUser, UserKey
from weir.api.tokens import scopes
from weir.notifications import actions as notifications
from weir.notifications import user_keys
from weir.workers.effects import actions as effects
from weir.workers.effects.maintenance.forgetting import Forgotten as ForgottenEffects
from weir.workers.mail import addresses as addresses_of_emails
from weir.workers.mail.actions import addresses
from weir.workers.mail.maintenance.forgetting import Forgotten as ForgottenRecipient

router = Router(tags=["users"])
WITHIN_S: Final = 5.0


@operation(
    router,
    "PUT",
    "/users/{user}/forgotten",
    scope=scopes.FORGET_USERS,
    answers={202: ForgottenUser},
    refusals=[READ_ONLY, NO_REASON],
)
def forget_user(request: HttpRequest, user: UserKey, wanted: Forgetting) -> Status[ForgottenUser]:
    """Delete a user's notifications and unread number and, if asked for, what e-mails and effects say.

    The request may be repeated, and is the same for a user who is not known. The user's account is the project's own.
    The address is in the body, because proxies log URLs.
    """
    of_program = actor(request)
    with refused(INVALID, ValueError):
        key = user_keys.clean(user)
        address = addresses_of_emails.canonical(wanted.address) if wanted.address else ""
    if address:
        addresses.FORGET.allow(of_program, wanted.why)
    if wanted.effects:
        effects.FORGET.allow(of_program, wanted.why)
    why = addresses_of_emails.redacted(wanted.why, address)
    notifications.forget_user(of_program, key, why=why)
    of_emails, of_effects = ForgottenRecipient(forgotten=0, cancelled=0, left=0), ForgottenEffects(forgotten=0, left=0)
    if address:
        of_emails = addresses.forget(of_program, address, why=wanted.why, wait_s=0.0, within_s=WITHIN_S)
    if wanted.effects:
        of_effects = effects.forget(of_program, key, why=why, within_s=WITHIN_S)
    return Status(
        202,
        ForgottenUser(
            emails_forgotten=of_emails.forgotten,
            emails_cancelled=of_emails.cancelled,
            emails_left=of_emails.left,
            effects_forgotten=of_effects.forgotten,
            effects_left=of_effects.left,
        ),
    )
