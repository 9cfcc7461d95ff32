"""Mistakes of somebody new: what was typed, what comes back, and the exit status.

What comes back is one sentence with the remedy. It is the last line: argparse writes above it how the command is used.
"""

import shlex
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.core.management import execute_from_command_line
from django.db import connection
from pytest_django import Settings

from project import environment
from project.doctor.themes import queues
from project.environment import UnreadableVariables
from project.errors import DOCTOR, in_one_sentence
from tests.integration.conftest import Message
from tests.integration.project.conftest import Manage, RefusesPasswords, serving
from tests.servers import database_url
from tests.set_up import IS_POOLED, POOL_SPEAKS_FIRST
from weir.notifications import inbox
from weir.workers import consumers
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Fetch
from weir.workers.mail import outbox
from weir.workers.mail.kinds import UnknownKind
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

pytestmark = pytest.mark.django_db(transaction=True)

RATES = "write COUNT/PERIOD, such as 3/s, 1/10s, 100/h or 1/day (periods: s, m, h, d)."
LENGTHS = "write 30 (seconds), 50ms, 90s, 10m, 2h or 1d."
HELP = "`manage.py {} --help` shows what it takes."
STATES = "The states are queued, reserved, running, done, failed, cancelled"

# What is typed behind `manage.py`, the last line that comes back, and the exit status. {here} is a folder with an empty
# file, {used} a port that a process listens on.
TYPED = [
    ("sitse", "Unknown command: 'sitse'. Did you mean sites?", 1),
    ("doctr", "Unknown command: 'doctr'. Did you mean doctor?", 1),
    # The commands on sites, fetches and e-mails.
    (
        "fetch --prioriti 3 http://a.example/",
        f"unrecognized arguments: --prioriti. {HELP.format('fetch')}",
        2,
    ),
    (
        "fetch --no-wait a.example/page",
        "a.example/page: not a URL: write it whole, such as https://example.com/page",
        1,
    ),
    ("fetch --no-wait ftp://a.example/", "the scheme 'ftp' is not fetched: only http and https are", 1),
    ("fetch --no-wait not-a-url", "not-a-url: not a URL: write it whole, such as https://example.com/page", 1),
    ("fetch --no-wait --file {here}/empty.txt", "No URL came: nothing was queued.", 1),
    ("fetch --no-wait --file missing.txt", "missing.txt cannot be read: No such file or directory.", 1),
    ("fetch", "Give URLs to fetch, or --file FILE, or - for stdin.", 1),
    ("fetch --file a.txt http://a.example/", "Give URLs, or --file FILE, or - for stdin: only one of them.", 1),
    ("fetch --timeout soon http://a.example/", f"'soon' is not a length of time: {LENGTHS} {HELP.format('fetch')}", 2),
    (
        "fetch --no-wait --priority 99999 http://a.example/",
        "32766, not 99999: only what Weir itself asks for, such as a robots.txt, goes before all others.",
        1,
    ),
    (
        "fetch http://a.example/",
        (
            "No worker consumes the queue weir.ticks and the queue weir.fetch, so nothing was queued: start all "
            "processes with `make up`, or what `manage.py weir_processes` prints; or queue for later with --no-wait."
        ),
        1,
    ),
    ("sites set a.example 3", f"'3' is not a rate: {RATES}", 1),
    ("sites set a.example fast", f"'fast' is not a rate: {RATES}", 1),
    ("sites set a.example 0/s", f"'0/s' is not a rate: {RATES}", 1),
    (
        "sites set http://a.example/ 3/s",
        "'http://a.example/' does not name a site: write its host, such as api.example.com or example.com:8080.",
        1,
    ),
    ("sites pause nowhere.example", "There is no site 'nowhere.example': `manage.py sites` lists those that exist.", 1),
    ("sites pause a.example --for long", f"'long' is not a length of time: {LENGTHS} {HELP.format('sites pause')}", 2),
    (
        "sites list --limit -1",
        f"argument --limit: must be a whole number from 0 up, not '-1'. {HELP.format('sites list')}",
        2,
    ),
    ("fetches cancel 999", "There is no fetch 999.", 1),
    (
        "fetches cancel 1_0",
        f"argument ID: must be a whole number above 0, not '1_0'. {HELP.format('fetches cancel')}",
        2,
    ),
    (
        "fetches retry",
        (
            "Say which: IDs, --site, --status, --error, --since, --batch, --share, --reference; or --all "
            "for every failed fetch."
        ),
        1,
    ),
    (
        "fetches list --since yesterday",
        (
            "argument --since: since must be a time such as 2026-01-31T12:00Z, or how long ago, such as 2h, "
            f"not 'yesterday'. {HELP.format('fetches list')}"
        ),
        2,
    ),
    (
        "fetches show 999",
        (
            "There is no fetch 999: no fetch was given this number (a transaction that rolls back leaves a gap), or it "
            "was purged. `manage.py fetches` lists the newest."
        ),
        1,
    ),
    (
        "fetches list --state faild",
        f"There is no state 'faild'. Did you mean failed? {STATES}. {HELP.format('fetches list')}",
        2,
    ),
    (
        "emails resolve 1 --arrived",
        f"the following arguments are required: --why. {HELP.format('emails resolve')}",
        2,
    ),
    ("emails resolve 999 --arrived --why 'It came.'", "There is no e-mail 999.", 1),
    # All others.
    ("up --port {used}", "): choose another with --port.", 1),
    (
        "up --fetchers many",
        f"argument --fetchers: must be a whole number from 0 up, not 'many'. {HELP.format('up')}",
        2,
    ),
    ("up --port 65536", f"argument --port: must be at most 65535, not '65536'. {HELP.format('up')}", 2),
    ("doctor --jsn", f"unrecognized arguments: --jsn. {HELP.format('doctor')}", 2),
    (
        "reconcile_unread --user 1_0",
        f"argument --user: A user's key must be a whole number, but is '1_0'. {HELP.format('reconcile_unread')}",
        2,
    ),
]

# The same with variables of the environment, which a new process reads. {postgres} is the port of a server that refuses
# passwords. Embedded servers that do not run, and a database without tables, are in test_connection_errors.py.
SET = [
    (
        "sites",
        {"DATABASE_URL": "postgresql://weir:weir@127.0.0.1:1/orders"},
        (
            'PostgreSQL at 127.0.0.1:1/orders does not work (connection failed: connection to server at '
            '"127.0.0.1", port 1 '
            f"failed: Connection refused): check DATABASE_URL{DOCTOR}."
        ),
        1,
    ),
    (
        "sites",
        {"DATABASE_URL": "postgresql://weir:database@127.0.0.1:{postgres}/orders"},
        (
            'failed: FATAL: password authentication failed for user "weir" in database "orders"): '
            f"check DATABASE_URL{DOCTOR}."
        ),
        1,
    ),
    (
        "sites",
        {"REDIS_URL": "http://cache.example:6379"},
        "REDIS_URL is malformed (it must begin with redis://): write redis://:PASSWORD@HOST:6379/0.",
        1,
    ),
    (
        "status",
        {"REDIS_URL": "redis://cache.example:6379/0?password=word"},
        (
            "REDIS_URL is malformed (what follows its ? cannot be used; a password stands before the host): "
            "write redis://:PASSWORD@HOST:6379/0."
        ),
        1,
    ),
    (
        "sites",
        {"CELERY_BROKER_URL": "ftp://mq.example/"},
        "CELERY_BROKER_URL is malformed (no broker is spoken to by ftp://): write redis://:PASSWORD@HOST:6379/0.",
        1,
    ),
    *(
        (
            "sites",
            {name: "redis://:word@mq.example/0"},
            (
                f"{name} must not be set: by it some of the processes, or some of their connections, would use another "
                "broker than the others. CELERY_BROKER_URL, or else REDIS_URL, names the broker of all."
            ),
            1,
        )
        for name in ("BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL")
    ),
    (
        "sites",
        {"WEIR_DEFAULT_RATE": "often"},
        "WEIR_DEFAULT_RATE must be a rate from 1/366d to 1000/s, such as 3/s, 1/10s, 100/h or 1/day, but is 'often'.",
        1,
    ),
    (
        "sync_schedule",
        {"WEIR_FETCH_ALOW_NETS": "127.0.0.0/8"},
        "Weir reads no variable WEIR_FETCH_ALOW_NETS. Did you mean WEIR_FETCH_ALLOW_NETS?",
        0,
    ),
    ("doctor", {"DATABASE_URL": "", "WEIR_HOME": "{here}"}, "2 wrong, 30 not checked.", 1),
]

# What web code calls.
CALLED: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: shipping.ship(999), Order.DoesNotExist, "There is no order 999."),
    (lambda: inbox.notify("seven", "a", "b"), ValueError, "A user's key must be a whole number, but is 'seven'."),
    (
        lambda: inbox.notify(get_user_model()(username="kim"), "a", "b"),
        ValueError,
        "A user's key must be a whole number, but is <User: kim>: pass user.pk.",
    ),
    (
        lambda: outbox.send_once("order.lost", "1", to="kim@example.com"),
        UnknownKind,
        (
            "There is no kind of e-mail 'order.lost'. Add the app whose emails.py "
            "registers it to INSTALLED_APPS, restart the mailers, and have the e-mail sent again."
        ),
    ),
    (
        lambda: request_fetches("http://a.example/"),
        TypeError,
        "urls must be several URLs, not one str: use request_fetch for one URL.",
    ),
    (
        lambda: request_fetch("http://a.example/", max_attempts=0),
        ValueError,
        "max_attempts must be between 1 and 32767, not 0.",
    ),
]


@pytest.fixture(autouse=True)
def _backend_as_it_comes(settings: Settings) -> None:
    """Name the backend that settings name: commands warn of the one that Django's test runner puts in its place."""
    settings.EMAIL_BACKEND = "weir.workers.mail.smtp.EmailBackend"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "empty.txt").touch()
    return tmp_path


@pytest.fixture
def used() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(scope="module")
def postgres() -> Iterator[int]:
    with serving(RefusesPasswords, b'password authentication failed for user "weir" in database "orders"%.0s') as port:
        yield port


def last_line(written: str) -> str:
    """Return the last line without its label; Django's advice to type `help` is not the sentence."""
    assert "Traceback" not in written
    lines = [
        line for line in written.splitlines() if line and not line.startswith(("Type '", "\tHINT", "System check id"))
    ]
    return lines[-1].removeprefix("CommandError: ")


@pytest.mark.parametrize("mistake", TYPED, ids=[typed for typed, *_ in TYPED])
def test_a_mistake_at_the_command_line(
    mistake: tuple[str, str, int],
    here: Path,
    used: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Comes back as one sentence, on stderr; what became of a URL is on stdout."""
    typed, told, status = mistake
    monkeypatch.setattr(consumers, "PATIENCE", (0.1,))
    arguments = ["manage.py", *shlex.split(typed.format(here=here, used=used))]
    with pytest.raises(SystemExit) as ended, in_one_sentence(arguments):
        execute_from_command_line(arguments)
    written = capsys.readouterr()
    assert (last_line(written.err or written.out)[-len(told) :], ended.value.code) == (told, status)


@pytest.mark.parametrize("mistake", SET, ids=[f"{' '.join(given)} {typed}" for typed, given, *_ in SET])
def test_a_mistake_in_a_variable(
    mistake: tuple[str, Mapping[str, str], str, int], here: Path, postgres: int, manage: Manage
) -> None:
    """Comes back as one sentence, whatever is typed, or as a warning before what the command does."""
    typed, given, told, status = mistake
    if IS_POOLED and "127.0.0.1" in given.get("DATABASE_URL", ""):
        pytest.skip(POOL_SPEAKS_FIRST)
    variables = {"DATABASE_URL": database_url(connection.settings_dict["NAME"]), **given}
    places = {"here": here, "postgres": postgres}
    ended = manage(
        *shlex.split(typed),
        **{name: text.format(**places) for name, text in variables.items()},
    )
    assert (last_line(ended.stderr or ended.stdout)[-len(told) :], ended.returncode) == (told, status)


@pytest.mark.parametrize(("call", "error", "told"), CALLED, ids=[told for *_, told in CALLED])
def test_a_mistake_in_web_code(call: Callable[[], object], error: type[Exception], told: str) -> None:
    """Is an error whose text is one sentence."""
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == told


def test_a_task_that_does_not_exist(messages: list[Message]) -> None:
    """A process need not have the code of the task that it names, so that is accepted; `doctor` tells it."""
    request_fetch("not-a-url", on_done="weir.hartbeat")
    assert Fetch.objects.get().on_done == "weir.hartbeat"
    [verdict] = queues._tasks()
    assert verdict.sentence == (
        "1 of the newest fetches name a task 'weir.hartbeat', which no app has. Did you mean weir.heartbeat?"
    )
    assert messages


def test_a_line_of_the_file_that_is_no_assignment(tmp_path: Path) -> None:
    """Ends every process, with the number of the line."""
    (tmp_path / ".env").write_text("# pace\nWEIR_LOOKAHEAD 5s\nEMAIL_HOST='mail\n")
    with pytest.raises(UnreadableVariables) as raised:
        environment.read(tmp_path / ".env")
    assert str(raised.value) == (
        ".env, line 2, cannot be read: write NAME=value, and a value with quotes, # or backslashes in single quotes."
    )
