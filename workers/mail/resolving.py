"""Records what people, mail logs and delivery reports say about an e-mail, and changes the e-mail accordingly."""

from collections.abc import Mapping, Sequence

from weir.workers.ledger.resolving import CannotBeResolved, Resolver
from weir.workers.mail import addresses, kinds, outbox
from weir.workers.mail.models import Act, Email, Rendering, Resolution
from weir.workers.mail.phases import NAMES, EmailState

__all__ = ["CannotBeResolved"]

# The states in which an e-mail must be for each act.
ALLOWED: Mapping[Act, tuple[EmailState, ...]] = {
    Act.ARRIVED: (EmailState.UNKNOWN,),
    Act.RESEND: (
        EmailState.UNKNOWN,
        EmailState.FAILED,
        EmailState.BOUNCED,
        EmailState.CANCELLED,
        EmailState.SUPPRESSED,
        EmailState.EXPIRED,
    ),
    Act.GIVE_UP: (EmailState.UNKNOWN,),
    Act.CANCEL: (EmailState.PENDING, EmailState.CLAIMED),
    Act.CORRECT: (
        EmailState.PENDING,
        EmailState.FAILED,
        EmailState.BOUNCED,
        EmailState.CANCELLED,
        EmailState.SUPPRESSED,
        EmailState.EXPIRED,
    ),
    Act.BOUNCED: (EmailState.SENT, EmailState.UNKNOWN),
}
# What a person has decided by each act, if the e-mail is in this state.
_DECIDED: Mapping[Act, EmailState] = {
    Act.ARRIVED: EmailState.SENT,
    Act.GIVE_UP: EmailState.FAILED,
    Act.CANCEL: EmailState.CANCELLED,
}
# How a refusal continues after "only pending ones".
_CAN: Mapping[Act, str] = {
    Act.ARRIVED: "can have arrived",
    Act.RESEND: "can be sent again",
    Act.GIVE_UP: "can be given up",
    Act.CANCEL: "can be cancelled",
    Act.CORRECT: "can be rendered anew",
    Act.BOUNCED: "can have come back",
}


class _Emails(Resolver[Email, Act]):
    """What people, mail logs and delivery reports say about e-mails."""

    title = "E-mail"
    allowed = ALLOWED
    can = _CAN
    unless_asked = (Act.CANCEL, Act.CORRECT)

    def refusal(self, row: Email, act: Act) -> str:
        if refused := super().refusal(row, act):
            return refused
        if act == Act.CORRECT and _was_given_up(row):
            return (
                f"E-mail {row.pk} was left unsent, and may have arrived: it is not rendered anew. "
                "Send it again, if its recipient may get it twice."
            )
        return _refusal_of_written(row, act) if kinds.is_written(row.kind) else ""

    def other_side(self, row: Email) -> str:
        return row.relay

    def wake(self) -> None:
        outbox.wake_mailer()

    def apply(
        self, row: Email, act: Act, why: str, *, to: str | None = None, may_be_late: bool = True, **_own: object
    ) -> None:
        if act in (Act.ARRIVED, Act.BOUNCED):
            row.sent_at = row.sent_at or row.sending_since
            self.end_claim(row, EmailState.SENT if act == Act.ARRIVED else EmailState.BOUNCED)
            if act == Act.BOUNCED:
                row.last_reply = why
        elif act in (Act.RESEND, Act.CORRECT):
            if act == Act.CORRECT:
                _render_anew(row, to)
            self.repeat(row, may_be_late=may_be_late)
        else:
            self.end_claim(row, EmailState.FAILED if act == Act.GIVE_UP else EmailState.CANCELLED)
        if act not in (Act.ARRIVED, Act.BOUNCED):  # of these, what it tells stays told
            kinds.release(row.kind, [row.pk], is_over=row.state != EmailState.PENDING)

    def write_down(self, row: Email, act: Act, who: str, why: str, *, to: str | None = None, **_own: object) -> None:
        """Store the resolution, with what was known of the e-mail until now.

        The old and the new recipient are removed from the reason, for two causes. The permission to resolve e-mails is
        not the permission to see their recipients. And if the old recipient is forgotten later, the e-mail, which then
        has another address, is not found.
        """
        reason = addresses.redacted(why, row.recipient)
        if to is not None:
            _, address = addresses.split(to)
            reason = addresses.redacted(reason, address)
        Resolution.objects.create(
            email=row,
            act=act,
            arrived=act == Act.ARRIVED,
            who=who.strip(),
            why=reason.strip(),
            state=row.state,
            phase=row.phase,
            last_reply=row.last_reply,
            claimed_by=row.claimed_by,
        )


_EMAILS = _Emails(Email, NAMES)
refusal = _EMAILS.refusal


def resolve(
    email_id: int,
    act: Act,
    who: str,
    why: str,
    *,
    to: str | None = None,
    may_be_late: bool = True,
    wakes: bool = True,
) -> Email:
    """Do what `weir.resolve_email` describes, without an entry in the audit trail: an operator's act writes its own."""
    if to is not None and act != Act.CORRECT:
        raise ValueError("Another address needs another rendering: correct the e-mail.")
    return _EMAILS.resolve(email_id, act, who, why, wakes=wakes, to=to, may_be_late=may_be_late)


def decided_by(email: Email, said: Sequence[Resolution]) -> Resolution | None:
    """Return the last of these resolutions, in their order, if it decided the e-mail's state; otherwise None.

    The e-mail's last reply is then that of an earlier attempt, and does not say why the e-mail has this state.
    """
    return said[-1] if said and _DECIDED.get(Act(said[-1].done)) == email.state else None


def _refusal_of_written(email: Email, act: Act) -> str:
    """Return why an e-mail that cannot be rendered, because it came written, cannot be corrected, or sent again."""
    if act == Act.CORRECT:
        return f"E-mail {email.pk} is not rendered anew. {kinds.never_rendered(email.kind)}"
    if act == Act.RESEND and not Rendering.objects.filter(pk=email.pk).exists():
        return f"What was transmitted of e-mail {email.pk} is not kept any more. {kinds.never_rendered(email.kind)}"
    return ""


def _was_given_up(email: Email) -> bool:
    """Return whether an operator has given the e-mail up without knowing whether it arrived."""
    last = email.resolutions.order_by("-pk").first() if email.state == EmailState.FAILED else None
    return last is not None and last.done == Act.GIVE_UP


def _render_anew(email: Email, to: str | None) -> None:
    """Delete the e-mail's rendering: a mailer renders the e-mail anew before the first attempt."""
    if to is not None:
        email.recipient_name, email.recipient = addresses.split(to)
    Rendering.objects.filter(pk=email.pk).delete()
