"""The Procfile's processes show no password: with URLs that cannot be read, and with servers that cannot be used."""

import logging
import re
import sys

import pytest
import structlog

from tests.integration.conftest import Eventually
from tests.integration.project.conftest import Procfile
from tests.unit.project.test_deployment_files import load_logging

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "s3cretZq9"  # noqa: S105  what must never be seen
PASSWORD = f"a%2F{SECRET}%25"
MALFORMED = {
    "DATABASE_URL": f"postgresql://weir:{SECRET}@db.example:port/orders",
    "REDIS_URL": f"redis://:{SECRET}@[::1/0",
    "CELERY_BROKER_URL": f"redis://{SECRET}@mq.example/0",
    "EMAIL_PORT": "smtp",
    "EMAIL_HOST_PASSWORD": SECRET,
}


@pytest.mark.parametrize("process", ["web", "fetcher", "beat"])
def test_what_cannot_be_read_is_told_without_a_password(process: str, procfile: Procfile) -> None:
    """Celery and uvicorn show a traceback, and the sentences of all mistakes at its end."""
    assert procfile.start(process, **MALFORMED).wait(30) != 0
    told = procfile.said(process)
    assert SECRET not in told
    assert re.findall(r"(\w+) (?:is malformed \(|must be)", told)[-4:] == list(MALFORMED)[:4]


@pytest.mark.parametrize(("process", "line"), [("fetcher", "Cannot connect"), ("beat", "Error")])
def test_a_server_that_cannot_be_used_is_told_without_a_password(
    process: str, line: str, procfile: Procfile, eventually: Eventually
) -> None:
    """Neither the banner nor what is logged shows it."""
    servers = {"DATABASE_URL": f"postgresql://weir:{PASSWORD}@127.0.0.1:1/orders"}
    servers["REDIS_URL"] = f"rediss://:{PASSWORD}@127.0.0.1:1/0"
    running = procfile.start(process, **servers, EMAIL_HOST_PASSWORD=SECRET)
    eventually(lambda: line in procfile.said(process), "an error")
    running.terminate()
    running.wait(30)
    assert SECRET not in procfile.said(process)


def test_a_readable_traceback_shows_no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """DEBUG is for readable logs, which also end up somewhere."""
    monkeypatch.setenv("DJANGO_DEBUG", "true")
    formatter = load_logging()["formatters"]["structured"]
    formatting = structlog.stdlib.ProcessorFormatter(**{key: formatter[key] for key in formatter if key != "()"})
    password = SECRET
    try:
        _ = 1 / (len(password) - len(SECRET))
    except ZeroDivisionError:
        text = formatting.format(logging.LogRecord("weir", logging.ERROR, "", 1, "it failed", None, sys.exc_info()))
    assert "ZeroDivisionError" in text
    assert SECRET not in text
