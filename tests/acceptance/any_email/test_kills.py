"""Every e-mail of a project through the outbox: whoever is killed, none comes twice, and none is lost."""

import json
import os
import random
import time

import pytest

from demo.fakes.mail_server import ACCEPTED
from tests.acceptance.any_email import club as clubs
from tests.acceptance.any_email.club import Club, People
from tests.waiting import comes_true, wait_for

AT_LENGTH = "WEIR_FAULTS" in os.environ
KILLS = int(os.environ.get("WEIR_FAULTS_KILLS", "300" if AT_LENGTH else "9"))
PEOPLE = 4
LEAST = 40  # doings that are answered
# What the operator does with each unknown e-mail: the list of the mail server says whether it arrived.
RESOLVE = """
import django, json, sys
django.setup()
from weir import Email, EmailAct, resolve_email
accepted = {tuple(each) for each in json.load(sys.stdin)}
unknown = Email.objects.filter(state="unknown")
for email in unknown:
    arrived = (email.message_id, email.recipient) in accepted
    resolve_email(email.pk, EmailAct.ARRIVED if arrived else EmailAct.RESEND, "Ada", "the mail server's list")
print(len(unknown))
"""


@pytest.mark.faults
def test_whoever_is_killed_each_message_comes_once_and_what_is_rolled_back_never(club: Club) -> None:
    """Web, worker and mailer are killed at any moment; django-allauth, Django's password reset and a task send."""
    chance = random.Random(os.environ.get("WEIR_FAULTS_SEED", "weir"))  # noqa: S311  who is killed, and when
    wait_for(club.serves, 60, "the web process")
    people = People(club, PEOPLE)
    for number in range(KILLS):
        time.sleep(chance.uniform(0.1, 1.2))  # chance decides when
        club.kill(clubs.KILLED[number % 3] if number < 3 else chance.choice(clubs.KILLED))
    wait_for(lambda: people.done() >= LEAST, 120, "people to be served")
    people.stop()
    # Celery loses the message of a task whose worker is killed right after it came from Redis. So each task is asked
    # for once more, as a project would that looks after its receipts: those that have run before send nothing.
    wait_for_tasks(club)
    lost = {f"receipt.{number}@members.example" for number in people.answered["receipt/"]} - queued()
    for number in people.answered["receipt/"]:
        assert club.post("receipt/", number=number) == 200
    unknown = settle(club)
    print(f"\ntasks that the broker lost: {len(lost)}; e-mails for an operator: {unknown}")
    judge(club, people)


def settle(club: Club) -> int:
    """Wait until all tasks are done, and all e-mails have ended; return how many had to be resolved by an operator."""
    wait_for_tasks(club)
    wait_for(lambda: not states().keys() & {"pending", "claimed", "sending"}, 120, "all e-mails to end")
    accepted = [(event.message_id, event.recipient) for event in club.mail.events() if event.event == ACCEPTED]
    unknown = states().get("unknown", 0)
    if unknown:
        club.run("-c", RESOLVE, given=json.dumps(accepted))
        wait_for(lambda: set(states()) == {"sent"}, 120, "what is resolved to be sent")
    return unknown


def judge(club: Club, people: People) -> None:
    """Fail if a message was accepted twice, or is missing, by the list of the mail server."""
    accepted = club.accepted()
    with clubs.session() as connected:
        signed_up = {email for (email,) in connected.execute("SELECT email FROM auth_user WHERE email LIKE 'signup.%'")}
    answered, unanswered = (
        {path: len(each) for path, each in said.items()} for said in (people.answered, people.unanswered)
    )
    print(f"killed: {dict(club.killed)}; answered: {answered}; unanswered: {unanswered}; sent: {states()}")
    assert people.wrong == []
    assert {recipient: number for recipient, number in accepted.items() if number > 1} == {}
    came = set(accepted)
    assert {email for email in came if email.startswith("signup.")} == signed_up
    assert {f"signup.{n}@members.example" for n in people.answered["accounts/signup/"]} <= signed_up
    for path in ("reset/", "accounts/password/reset/"):
        assert {f"member.{n}@members.example" for n in people.answered[path]} <= came
    for n in people.answered["receipt/"]:
        assert {f"receipt.{n}@members.example", f"treasurer.{n}@club.example"} <= came
    assert {email for email in came if email.startswith("failing.")} == set()
    assert states() == {"sent": accepted.total()}


def wait_for_tasks(club: Club) -> None:
    """Wait until no message of the project's tasks waits, and each is acknowledged."""
    assert comes_true(lambda: is_empty(club), 120), left(club)


def is_empty(club: Club) -> bool:
    """Return whether, at one moment, no message of the project's tasks waits, and each is acknowledged."""
    with club.valkey.client.pipeline() as transaction:
        waiting, taken = transaction.llen("celery").hvals("unacked").execute()
    return not waiting and not any("send_receipt" in message for message in taken)


def left(club: Club) -> str:
    """Return what the broker has, and what its workers wrote last."""
    redis = club.valkey.client
    written = "\n".join(f"{name}: {club.written(name)[-2000:]}" for name in ("worker", "mailer"))
    taken = redis.zrange("unacked_index", 0, -1, withscores=True)
    locked = redis.pttl("unacked_mutex")  # by who gives out again; -2: by nobody
    return f"{redis.llen('celery')} wait; taken at: {taken}; locked for {locked} ms\n{written}"


def queued() -> set[str]:
    """Return the recipients of all e-mails."""
    with clubs.session() as connected:
        return {recipient for (recipient,) in connected.execute("SELECT recipient FROM weir_mail_email")}


def states() -> dict[str, int]:
    """Return the number of e-mails in each state."""
    with clubs.session() as connected:
        return dict(connected.execute("SELECT state, count(*) FROM weir_mail_email GROUP BY state").fetchall())
