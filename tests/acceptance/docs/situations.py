"""What the pages leave to their reader: where each begins, what is there already, and what cannot be run in a test.

A page that is not named begins where the quickstart and "Add your own app" end: .venv is activated, Weir runs.
"""

from dataclasses import dataclass

from tests.acceptance.docs import pages

ACTIVATE = "source .venv/bin/activate"
README, REAL = "README.md", "docs/how-to/use-real-servers.md"
QUICKSTART, TUTORIAL = "docs/quickstart.md", "docs/tutorial.md"
ADD_YOUR_APP, SCALE_OUT = "docs/how-to/add-your-app.md", "docs/how-to/scale-out.md"
FRESH = {README, QUICKSTART}  # these begin in a fresh clone after `make install`
# These add the app `shop`, which pages after them write into: they begin in a clone that was used, and has none.
WITHOUT_SHOP = {TUTORIAL, ADD_YOUR_APP}
# The reader of this page starts each process by itself: Weir does not run before.
BY_ITSELF = {REAL}
# For the reader of this page, processes start again when code changes. What readers of others write is executed by what
# they type: a dozen starts of all processes would prove nothing.
RELOADED = {ADD_YOUR_APP}
UP = "make up"
UP_WITHOUT_RELOAD = "make up ARGS=--no-reload"
# What somebody reads who has never seen Weir.
FIRST_PAGES = (README, QUICKSTART, TUTORIAL)
# Of the how-to pages, so that what one page starts is of use to the next one; the others are read between, in the order
# of the index.
FIRST, LAST = (REAL, ADD_YOUR_APP), (SCALE_OUT,)


def how_to_pages() -> list[str]:
    """Return all pages but the first ones, in the order in which they are read."""
    between = [page for page in pages.all_pages() if page not in {*FIRST_PAGES, *FIRST, *LAST}]
    return [*FIRST, *between, *LAST]


@dataclass(frozen=True)
class NotRun:
    """A block that is not run, or of it the commands that begin so; `first` is the block's first line."""

    page: str
    first: str
    why: str
    only: str = ""


DEMO = "test_up_and_demo.py watches it, and presses Ctrl-C; the newcomer has it install Weir (conftest.py)."
GREP = "The log is that of a mail server."
NOT_RUN = [
    NotRun(README, "make demo", "It would run the tests in a test.", only="make test"),
    NotRun(README, "make demo", DEMO, only="make demo"),
    NotRun(QUICKSTART, "make demo", DEMO),
    NotRun("docs/how-to/resolve-unknown.md", "grep 'order.shipped-4711-' /var/log/mail.log", GREP),
    NotRun("docs/how-to/resolve-unknown.md", "grep '4Xk2qW1z9z' /var/log/mail.log", GREP),
    NotRun(REAL, "DATABASE_URL=postgresql://weir:PASSWORD@db.example.com:5432/weir", "These are the reader's servers."),
    NotRun(REAL, "WEIR_TLS_PROXIES=10.0.0.5", "There is no proxy; test_tls_proxy.py has one."),
    NotRun(REAL, "location / {", "There is no nginx."),
    NotRun(
        REAL,
        'export DJANGO_SECRET_KEY=$(python3 -c "import secrets; print(secrets.token_urlsafe(50))") '
        "REDIS_PASSWORD=lettersanddigits",
        "There is no Docker.",
    ),
]
HARDEN = "docs/how-to/harden.md"
KUBERNETES = "docs/how-to/run-on-kubernetes.md"
NO_CLUSTER = "There is no Kubernetes."
NOT_RUN += [
    NotRun(HARDEN, "export POSTGRES_OWNER_PASSWORD=... POSTGRES_APP_PASSWORD=...", "test_least_rights.py executes it."),
    NotRun(KUBERNETES, "kubectl --namespace weir delete job weir-migrate --ignore-not-found", NO_CLUSTER),
]

NOT_RUN += [
    NotRun("docs/how-to/monitor.md", "scrape_configs:", "There is no Prometheus."),
]

NOT_RUN += [
    NotRun(
        "docs/how-to/sign-requests.md",
        "WEIR_SIGNATURE_AGENT=https://bot.example.com",
        "This host is the reader's; tests/integration/signatures has one.",
    )
]

NOT_RUN += [
    NotRun("docs/how-to/receive-webhooks.md", "{", "It is what a receiver gets; test_delivering.py compares it.")
]

BY_PYTEST = "tests/integration/integrate/test_hosts.py runs tests by pytest."
NOT_RUN += [NotRun("docs/how-to/test-your-app.md", "from shop.tasks import ask_for_price", BY_PYTEST)]

API = "docs/how-to/use-the-api.md"
GENERATED = "tests/acceptance/api/test_client.py generates a client, and calls each operation with it."
NOT_RUN += [NotRun(API, "from weir_client import AuthenticatedClient", GENERATED)]

# What goes on until Ctrl-C, by how it begins, and what it shows when it works.
GOES_ON = {
    "make up": "Weir is running.",
    "uvicorn ": "Application startup complete",
    "celery -A project worker ": "ready.",
    "celery -A project beat": "is starting.",  # and stands by where `weir` is beat
    "python examples/price_sites.py": "Ctrl-C closes them.",
}

# What only looks is typed again until it shows what the page states, as a reader would, for so many seconds.
LOOKS = {
    "curl http": 30.0,
    "grep --no-filename Subject .weir/mail": 30.0,
    "python manage.py emails": 30.0,
    "python manage.py fetches list": 30.0,
    "python manage.py check_heartbeat": 90.0,
}

# From a block that begins so, a page is about servers of the reader's own, which the environment names.
ON_OWN_SERVERS = "python manage.py migrate --no-input && python manage.py sync_schedule"

UNKNOWN = """
from uuid import uuid4
from django.utils import timezone
from weir.workers.mail.models import Email
Email.objects.update_or_create(
    pk=17,
    defaults={
        "kind": "order.shipped", "key": "4711", "state": "unknown", "message_id": "<order.shipped-4711-@example.com>",
        "claim_token": uuid4(), "sending_since": timezone.now(), "sent_at": None, "phase": "after dot",
        "last_reply": "The connection broke.",
    },
)
"""
COMPLETE = "--complete-from 2026-11-23T00:00Z --complete-until 2026-11-23T12:00Z"
EVIDENCE = """
from datetime import datetime
from pathlib import Path
from uuid import uuid4
from weir.workers.mail.models import Email
for number in (17, 18):
    Email.objects.update_or_create(
        pk=number,
        defaults={
            "kind": "order.shipped", "key": str(4694 + number), "state": "unknown", "claim_token": uuid4(),
            "message_id": f"<order.shipped-{4694 + number}-@example.com>", "phase": "after dot", "sent_at": None,
            "sending_since": datetime.fromisoformat("2026-11-23T10:42:11+00:00"), "last_reply": "The connection broke.",
        },
    )
Path("mail.log").write_text(
    "2026-11-23T10:00:00+00:00 mx1 postfix/cleanup[310]: 4Xk1fQ0z9z: message-id=<another@example.com>\\n"
    "2026-11-23T10:42:12+00:00 mx1 postfix/cleanup[310]: 4Xk2qW1z9z: message-id=<order.shipped-4711-@example.com>\\n"
    "2026-11-23T10:42:12+00:00 mx1 postfix/qmgr[311]: 4Xk2qW1z9z: from=<a@b>, size=1, nrcpt=1 (queue active)\\n"
    "2026-11-23T11:30:00+00:00 mx1 postfix/anvil[312]: statistics: max cache size 1 at Nov 23 11:20:00\\n"
)
"""
BOUNCE = """
from pathlib import Path
from django.utils import timezone
from weir.workers.mail.models import Email
Email.objects.update_or_create(
    pk=17,
    defaults={
        "kind": "order.shipped", "key": "4711", "state": "sent", "message_id": "<order.shipped-4711-@example.com>",
        "sent_at": timezone.now(), "claim_token": None, "sending_since": None, "recipient": "ada@example.com",
    },
)
for name in ("new", "cur", "tmp"):
    Path("bounces", name).mkdir(parents=True, exist_ok=True)
Path("bounces/new/1.mx1").write_text(
    "Content-Type: multipart/report; boundary=b\\n\\n--b\\nContent-Type: message/delivery-status\\n\\n"
    "Reporting-MTA: dns; mx1\\n\\nFinal-Recipient: rfc822; ada@example.com\\nAction: failed\\nStatus: 5.1.1\\n"
    "Diagnostic-Code: smtp; No such user\\n\\n--b\\nContent-Type: text/rfc822-headers\\n\\n"
    "Message-ID: <order.shipped-4711-@example.com>\\n\\n--b--\\n"
)
"""
MISSPELT = """
from weir.ratelimit import site_settings
site_settings.set_rate("api.exmaple.com", "1/s")
"""
# Beat's first ones come a minute after its start; these come at once, to the same workers.
HEARTBEATS = """
from project.celery import app
from weir.workers import schedule, task_names
for queue in schedule.queues():
    app.send_task(task_names.HEARTBEAT, [queue], queue=queue)
"""
# What a page speaks of is made in Django's shell before the block with this first line: (page, first line) -> code.
GIVEN = {
    ("docs/how-to/resolve-unknown.md", "$ python manage.py emails bounces --maildir bounces"): BOUNCE,
    (
        "docs/how-to/resolve-unknown.md",
        f"$ python manage.py emails evidence mail.log {COMPLETE}",
    ): EVIDENCE,
    (
        "docs/how-to/resolve-unknown.md",
        '$ python manage.py emails resolve 17 --arrived --why "Queue id 4Xk2, delivered 10:42"',
    ): UNKNOWN,
    (
        "docs/how-to/resolve-unknown.md",
        '$ python manage.py emails resolve 17 --resend --why "Not in the mail server\'s log"',
    ): UNKNOWN,
    ("docs/how-to/set-rates.md", "python manage.py sites delete api.exmaple.com"): MISSPELT,
    (REAL, "python manage.py check --deploy"): HEARTBEATS,
}
