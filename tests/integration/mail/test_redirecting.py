"""Another recipient needs another permission: who chooses the recipient of an e-mail can read what it says."""

import hashlib

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from tests.integration.admin_pages import page
from tests.integration.mail.shipments import ship
from tests.integration.mail.test_emails_command import told
from tests.programs import Program, token
from weir import EmailAct, resolve_email
from weir.workers.audit import acting
from weir.workers.audit.acting import Actor
from weir.workers.audit.models import Door, Entry
from weir.workers.mail.actions import emails
from weir.workers.mail.models import Act, Email

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

RESOLVE, REDIRECT = "weir_mail.resolve_email", "weir_mail.redirect_email"
OLD, NEW = "kim@example.com", "Mallory <MALLORY@Elsewhere.example>"
RIGHTS = [
    (RESOLVE,),
    (REDIRECT,),
    ("weir_mail.view_email", "weir_ops.view", RESOLVE),
    (REDIRECT, "weir_mail.change_email"),
]
LISTED, SHOWN = "admin:weir_mail_email_changelist", "admin:weir_mail_email_change"


def client_of(permission: str) -> Client:
    """Return a browser in which a user with this permission on e-mails is logged in."""
    user = User.objects.create_user(f"{permission}-{User.objects.count()}", is_staff=True)
    user.user_permissions.add(Permission.objects.get(content_type__app_label="weir_mail", codename=permission))
    client = Client()
    client.force_login(user)
    return client


RESET = "https://shop.example/reset?token=4711"


@pytest.fixture
def email() -> Email:
    """Return one that waits, for OLD, with what only its reader may know."""
    sent = ship()
    values = {"recipient": OLD, "recipient_name": "Kim", "subject": "Your code is 123456", "context": {"url": RESET}}
    Email.objects.filter(pk=sent.pk).update(**values)
    return Email.objects.get(pk=sent.pk)


def hashed(address: str) -> str:
    return hashlib.sha256(address.encode()).hexdigest()


def was_redirected(email: Email) -> bool:
    """Return whether it was, with an entry about both addresses, neither of which can be read there."""
    if Email.objects.get(pk=email.pk).recipient == OLD:
        assert not Entry.objects.filter(action__startswith="emails.").exists()
        return False
    entry = Entry.objects.get(action__startswith="emails.")
    assert (entry.action, entry.target) == ("emails.redirect", f"e-mail {email.pk}")
    assert (entry.before or {})["recipient"] == hashed(OLD)
    assert (entry.after or {})["recipient"] == hashed("mallory@elsewhere.example")
    assert not [part for part in ("kim@", "mallory@") if part in str(vars(entry)).lower()]
    return True


def by_action(email: Email, rights: tuple[str, ...]) -> None:
    actor = Actor(name="ada", door=Door.API, may=rights.__contains__)
    emails.resolve(actor, email.pk, Act.CORRECT, why=f"Not {OLD}.", to=NEW)


def by_api(email: Email, rights: tuple[str, ...]) -> int:
    scopes = [right for right in rights if right != "weir_mail.change_email"]
    wanted = {"act": "correct", "why": f"Not {OLD}.", "to": NEW}
    answer = Program(token(*scopes)).call("POST", f"/emails/{email.pk}/resolutions", wanted)
    status: int = answer.status_code
    return status


def by_page(email: Email, rights: tuple[str, ...]) -> int:
    user = User.objects.create_user("ada")
    for right in {"weir_ops.view", *rights}:
        app, codename = right.split(".")
        user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
    browser, path = Client(), f"/emails/{email.pk}/redirect/"
    browser.force_login(user)
    values = {"seen": emails.version_of(email), "to": NEW, "why": f"Not {OLD}."}
    assert browser.post(f"/emails/{email.pk}/correct/", {**values, "seen": "?"}).status_code in {403, 409}
    return browser.post(path, values).status_code


@pytest.mark.parametrize("rights", RIGHTS, ids=str)
def test_nobody_redirects_with_less_than_both_rights(email: Email, rights: tuple[str, ...]) -> None:
    """By action, API or page; and no refusal tells whether an address is the one that the e-mail has."""
    with pytest.raises(acting.NotPermitted, match="lacks the permission weir_mail"):
        by_action(email, rights)
    assert by_api(email, rights) == 403
    assert by_page(email, rights) == 403
    with pytest.raises(acting.NotPermitted):
        emails.resolve(
            Actor(name="ada", door=Door.API, may=rights.__contains__), email.pk, Act.CORRECT, why="Is it?", to=OLD
        )
    assert not was_redirected(email)


def test_with_both_rights_an_email_goes_to_another_address(email: Email) -> None:
    by_action(email, (RESOLVE, REDIRECT))
    assert was_redirected(email)


def test_a_token_with_both_scopes_redirects(email: Email) -> None:
    assert by_api(email, (RESOLVE, REDIRECT)) == 201
    assert was_redirected(email)


def test_a_user_with_both_rights_redirects_on_the_page(email: Email) -> None:
    assert by_page(email, (RESOLVE, REDIRECT)) == 302
    assert was_redirected(email)


def test_a_command_redirects(email: Email) -> None:
    """A person with a shell may do everything."""
    told("correct", email.pk, "--to", NEW, "--why", f"Not {OLD}.")
    assert was_redirected(email)


def test_code_redirects_in_a_persons_name(email: Email) -> None:
    """Code decides itself who may."""
    resolve_email(email.pk, EmailAct.CORRECT, "ada", f"Not {OLD}.", to=NEW)
    assert was_redirected(email)
    assert (Entry.objects.get().door, Entry.objects.get().why) == ("code", "Not <recipient>.")


def test_who_may_only_resolve_has_it_rendered_anew_for_the_same_address(email: Email) -> None:
    emails.resolve(Actor(name="ada", door=Door.API, may={RESOLVE}.__contains__), email.pk, Act.CORRECT, why="A typo.")
    assert Email.objects.get(pk=email.pk).recipient == OLD
    entry = Entry.objects.get()
    assert (entry.action, entry.before) == ("emails.correct", {"phase": "", "state": "pending"})


def test_who_may_only_resolve_sees_no_page_of_the_admin(email: Email) -> None:
    """The admin shows the recipient of an e-mail, and what it says."""
    for name, arguments in ((LISTED, []), (SHOWN, [email.pk])):
        assert client_of("resolve_email").get(reverse(name, args=arguments)).status_code == 403
        assert OLD in page(client_of("view_email"), name, *arguments)


def test_what_is_said_of_an_email_names_neither_recipient(email: Email) -> None:
    """Users who may only resolve read it on its page; and to forget the old address would not find a redirected one."""
    emails.resolve(
        Actor(name="eve", door=Door.API, may=lambda _right: True),
        email.pk,
        Act.CORRECT,
        why=f"{OLD.upper()} has left: it is for mallory@elsewhere.example now.",
        to=NEW,
    )
    emails.resolve(Actor(name="eve", door=Door.API, may={RESOLVE}.__contains__), email.pk, Act.CANCEL, why=f"{OLD}?")
    redirected, cancelled = email.resolutions.order_by("pk").values_list("why", flat=True)
    assert redirected == "<recipient> has left: it is for <recipient> now."
    assert cancelled == f"{OLD}?", "an address that it has no more is not known"
