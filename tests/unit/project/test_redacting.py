"""No sentence shows a password, and none is garbled, or tells the password, because that is a word like any other."""

import re
from itertools import product

import pytest

from project.environment import redacting, urls
from project.environment.redacting import redacted
from tests.cases import for_each

# What drivers and servers say, as their users see it.
TOLD = (
    'connection to server at "10.0.0.5", port 5432 failed: FATAL: password authentication failed for user "weir"',
    'connection to server on socket "/run/.s.PGSQL.5432" failed: FATAL: database "orders" does not exist',
    'connection to server at "10.0.0.5", port 5432 failed: Connection refused',
    "connection to server at host failed: server closed the connection unexpectedly",
    'FATAL: no pg_hba.conf entry for host "10.0.0.9", user "weir", database "orders", no encryption',
    "FATAL: sorry, too many clients already",
    "FATAL: the database system is starting up",
    'could not translate host name "db" to address: Name or service not known',
    "could not open a connection: too many open files",
    "Error 111 connecting to cache:6379. Connection refused.",
    "WRONGPASS invalid username-password pair or user is disabled.",
    "NOAUTH Authentication required.",
    "error connecting in 'pool-1': connection is bad: no error details available",
    "reconnection attempt in pool 'pool-1' failed after 300.0 sec",
    "rolling back returned connection: <psycopg.Connection [INTRANS]>",
    "Timeout reading from socket",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "READONLY You can't write against a read only replica.",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
)
NAMES = ("weir", "orders", "db", "cache")


SECRETS = ("s3cret", "swordfish", "hunter2", "p#ss", "correct horse battery staple", "Tr0ub4dor&3")
REPEATED = ("I dislike %s", 'user "weir" has not "%s"', "AUTH weir %s: refused", "%s")
ALSO_WORDS = ("a", "database", "weir", "s3cret", "a%20word")
PLACES = (
    "postgresql://weir:%s@db/orders is malformed",
    "amqp://weir:%s@mq.example// is away",
    "redis://:%s@cache:6379/0",
    "host=db password=%s user=weir",
    "host=db password='%s' user=weir",
    "redis://cache/0?password=%s&db=1",
)


def test_a_password_that_is_a_word_of_the_sentence_changes_nothing() -> None:
    """The same is said whatever the password is: otherwise the sentence would tell it."""
    for told in TOLD:
        for word in set(re.findall(r"[A-Za-z]+", told)) | {"a", "b", "o", "base"}:
            for secret in {word, word.lower(), word.upper()}:
                assert redacted(told, [secret], NAMES) == told, secret


def test_a_password_that_a_server_repeats_is_not_shown() -> None:
    """Wherever it stands."""
    cases = list(product(REPEATED, SECRETS))
    found = [redacted(told % secret, [secret], NAMES) for told, secret in cases]
    assert found == [told % "***" for told, _ in cases]


def test_what_stands_where_a_password_stands_is_masked() -> None:
    """Also a common word, and one that is not the password that was set."""
    cases = [(told, secret, known) for told, secret in product(PLACES, ALSO_WORDS) for known in ([secret], [])]
    found = [redacted(told % secret, known, NAMES) for told, secret, known in cases]
    assert found == [told.replace("'%s'", "%s") % "***" for told, _, _ in cases]


@for_each(
    ("text", "shown"),
    [
        ("fails:\n  hunter2 at hunter2x", "fails: *** at hunter2x"),
        ("xlong secret#y", "x***y"),
        ("both long secret# and long secret#2", "both *** and ***"),
        ("swordfishes", "swordfishes"),
    ],
)
def test_words_stay_whole(text: str, shown: str) -> None:
    """A secret is masked where it is no part of a word, but for a long one that is none; the text is one line."""
    assert redacted(text, ["hunter2", "long secret#", "long secret#2", "swordfish"]) == shown


def test_the_names_in_a_url_may_be_shown() -> None:
    """Of user, hosts and database; of a URL that cannot be read, nothing is a name."""
    assert urls.names("DATABASE_URL", "postgresql://weir:pw@db1.example,db2/orders") == [
        "weir", "orders", "db1", "example", "db2",
    ]  # fmt: skip
    assert urls.names("REDIS_URL", "redis://app:pw@cache:6379/0") == ["redis", "app", "cache"]
    assert urls.names("DATABASE_URL", "postgresql://weir:12/pw@db/orders") == []
    assert urls.names("REDIS_URL", "") == []


def test_the_passwords_of_the_environment_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the servers, of the mail server, and the key; but no name that is a password somewhere else."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://weir:pass-of-db@db.example/orders")
    monkeypatch.setenv("REDIS_URL", "redis://:orders@cache.example/0")
    monkeypatch.setenv("EMAIL_HOST_PASSWORD", "pass-of-mail")
    monkeypatch.setenv("DJANGO_SECRET_KEY", "the-key-of-django")
    told = "orders of weir: pass-of-db, pass-of-mail, the-key-of-django"
    assert redacting.without_secrets(told) == "orders of weir: ***, ***, ***"
