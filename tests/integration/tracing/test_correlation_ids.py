"""One id: from the header of a web request to the rows, messages and log lines of all that it asked for."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
import redis
import structlog
from celery import shared_task
from celery.app.trace import build_tracer
from django.core.management import call_command
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path
from pytest_django import Settings
from structlog.testing import capture_logs

from demo.fakes.sites import Sites
from project.celery import app
from tests.integration.conftest import Eventually
from tests.integration.fetching import fetched
from tests.integration.mail import shipments
from weir.workers import broker_link, task_names
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.fetches.on_done import calls as on_done
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.mail.sending import runner
from weir.workers.orders import shipping
from weir.workers.publish import publish
from weir.workers.tracing import correlation
from weir.workers.tracing import messages as tracing_messages

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")  # a view may have transactions in each

ID = "checkout-7f0c"
TASK = "tests.tracing.asks"
seen: list[tuple[str, Fetch]] = []


def ask(request: HttpRequest) -> HttpResponse:
    """Ask for a page, ship an order, and send a message."""
    request_fetch(request.GET.get("url", "http://example.com/page?token=s3cret"), on_done=TASK)
    shipping.ship(int(request.GET["order"]))
    publish(TASK, 0)
    structlog.get_logger("shop").info("asked")
    if "fail" in request.GET:
        raise RuntimeError("no")
    return HttpResponse("asked")


urlpatterns = [path("ask", ask)]


@shared_task(name=TASK)
def asks(_number: int) -> None:
    """Ask for a page, as a user's task does."""
    seen.append((correlation.current(), request_fetch("http://example.com/next")))


@pytest.fixture(autouse=True)
def _views(settings: Settings) -> None:
    settings.ROOT_URLCONF = __name__


@pytest.fixture
def broker(valkey: redis.Redis) -> Iterator[redis.Redis]:
    """Return the tests' Valkey, to which messages are sent."""
    broker_link.forget_outage()
    yield valkey
    valkey.flushdb()


def headers(broker: redis.Redis, queue: str = "default") -> list[dict[str, Any]]:
    """Return the headers of the messages in a queue, the oldest first."""
    return [json.loads(message)["headers"] for message in reversed(broker.lrange(queue, 0, -1))]


def asked(given: str | None, **query: Any) -> HttpResponse:
    """Ask through the view, with this X-Request-ID."""
    client = Client(raise_request_exception=False)
    extra = {} if given is None else {"X-Request-ID": given}
    answer: Any = client.get("/ask", {"order": shipments.place().pk, **query}, headers=extra)
    return answer  # type: ignore[no-any-return]


def test_a_request_names_rows_and_messages_and_its_answer(broker: redis.Redis, settings: Settings) -> None:
    """Weir's own messages have no name: what they wake does the work of many."""
    settings.WEIR_OBEY_ROBOTS = True
    assert asked(ID).headers["X-Request-ID"] == ID
    assert {fetch.correlation_id for fetch in Fetch.objects.all()} == {ID}  # its robots.txt, too
    assert Fetch.objects.filter(is_robots=True).count() == 1
    assert Email.objects.get().correlation_id == ID
    [message] = headers(broker)
    assert (message["task"], message[tracing_messages.HEADER]) == (TASK, ID)
    assert headers(broker, "weir.ticks")
    assert not any(
        tracing_messages.HEADER in each for each in headers(broker, "weir.ticks") + headers(broker, "weir.mail")
    )
    assert correlation.current() == ""  # the request is over


def test_an_answer_that_failed_has_the_id() -> None:
    """That is the one which somebody looks for in the logs."""
    answer = asked(ID, fail=1)
    assert (answer.status_code, answer.headers["X-Request-ID"]) == (500, ID)


@pytest.mark.usefixtures("messages")
@pytest.mark.parametrize("given", [None, "", "x" * 65, "x" * 2**20, "a\nb", "<script>alert(1)</script>", "a\x1b[2Jb"])
def test_a_request_without_a_good_id_gets_a_new_one(given: str | None, caplog: pytest.LogCaptureFixture) -> None:
    """What a hostile header says is in no row, in no line and not in the answer."""
    made = asked(given).headers["X-Request-ID"]
    assert str(UUID(made)) == made
    assert {fetch.correlation_id for fetch in Fetch.objects.all()} == {Email.objects.get().correlation_id} == {made}
    lines = [record.msg for record in caplog.records if isinstance(record.msg, dict)]
    assert {line.get("correlation_id") for line in lines if line["event"] in {"request_started", "asked"}} <= {
        made,
        None,
    }
    assert "asked" in {line["event"] for line in lines}
    assert not given or given not in repr(lines)
    assert not any("request_id" in line for line in lines if line["event"] != "request_started")


def run(task_headers: dict[str, str]) -> tuple[str, Fetch]:
    """Run the user's task as a worker does that has got a message with these headers."""
    seen.clear()
    task = app.tasks[TASK]
    request = {"id": "task-1", "args": [0], "kwargs": {}, "is_eager": False, **task_headers}
    build_tracer(TASK, task, app=app)("task-1", [0], {}, request)
    [one] = seen
    return one


@pytest.mark.usefixtures("messages")
def test_what_a_task_asks_for_has_the_name_of_its_message() -> None:
    """Without one, such as when beat sent it, that of the task; a name that is no good counts as none."""
    assert run({tracing_messages.HEADER: ID})[0] == ID
    assert Fetch.objects.get(url="http://example.com/next").correlation_id == ID
    assert run({})[0] == "task-1"
    assert run({tracing_messages.HEADER: "a\nb"})[0] == "task-1"
    assert correlation.current() == ""


def test_a_block_within_a_block_gives_the_name_back() -> None:
    """What is done after a row's own lines is done for whom it was before; also where the block fails."""
    with correlation.bound("outer"):
        with pytest.raises(RuntimeError), correlation.bound("inner"):
            raise RuntimeError("no")
        assert correlation.current() == "outer"
    assert correlation.current() == ""


def test_a_message_that_is_sent_again_keeps_its_name(broker: redis.Redis) -> None:
    """Such as that of a task which was postponed, whoever sends it."""
    with correlation.bound("other"), app.connection_for_write() as connection:
        app.send_task(TASK, (0,), headers={tracing_messages.HEADER: ID}, connection=connection)
    [message] = headers(broker)
    assert message[tracing_messages.HEADER] == ID


def test_a_task_of_weir_works_for_nobody_in_particular() -> None:
    """Not even where its message has a name, as one of an older version may have."""
    request = SimpleNamespace(is_eager=False, get={tracing_messages.HEADER: ID}.get)
    with correlation.bound("before"):
        tracing_messages._bind("task-1", SimpleNamespace(name=task_names.DISPATCH, request=request))
        assert correlation.current() == ""


def test_a_task_that_runs_within_its_caller_keeps_the_name_of_that() -> None:
    """As tests of an application call tasks: the message has none, and the request goes on afterwards."""
    task = SimpleNamespace(name=TASK, request=SimpleNamespace(is_eager=True, get={}.get))
    with correlation.bound(ID):
        tracing_messages._bind("task-1", task)
        assert correlation.current() == ID
        tracing_messages._unbind(task)
        assert correlation.current() == ID


def test_the_task_at_the_end_has_the_name_of_its_fetch(broker: redis.Redis) -> None:
    """Whoever calls it, and whatever else is called with it; also where sweep calls it, which has no name."""
    with correlation.bound("other"):
        on_done.call_on_done([on_done.Ended(1, TASK, ID), on_done.Ended(2, TASK, "")])
    with correlation.bound(ID):
        request_fetch("no URL", on_done=TASK)
    Fetch.objects.update(on_done_called_at=None, finished_at="2026-01-01T00:00Z")
    broker.delete("default")
    assert on_done.call_overdue() == 1
    assert [message.get(tracing_messages.HEADER) for message in headers(broker)] == [ID]


@pytest.mark.usefixtures("messages")
def test_lines_of_a_fetch_carry_its_id(fetcher: Fetcher, running_sites: Sites, eventually: Eventually) -> None:
    """Each its own, in one batch; without the URL, which may hold secrets. A retry keeps it."""
    with correlation.bound(ID):
        failing = request_fetch(running_sites.url(0, "/status/500?token=s3cret"), max_attempts=1)
    unnamed = request_fetch(running_sites.url(1, "/status/500"), max_attempts=1)
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        assert fetched(failing, fetcher).state == FetchState.FAILED
        assert fetched(unnamed, fetcher).state == FetchState.FAILED
        eventually(lambda: sum(line["event"] == "fetch_failed" for line in lines) > 1, "the lines, after the rows")
    told = {line["fetch"]: line.get("correlation_id") for line in lines if line["event"] == "fetch_failed"}
    assert told == {failing.pk: ID, unnamed.pk: None}
    assert "s3cret" not in repr(lines)


@pytest.mark.usefixtures("messages")
def test_lines_of_an_email_carry_its_id(settings: Settings) -> None:
    """Here the one which says that it failed."""
    settings.WEIR_MAIL_MAX_ATTEMPTS = 1
    with correlation.bound(ID):
        email = shipments.unrendered(shipments.ship())
    Email.objects.filter(pk=email.pk).update(kind="of.nobody")
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        runner.send_due()
    email.refresh_from_db()
    assert email.state == EmailState.FAILED
    assert [line["correlation_id"] for line in lines if line["event"] == "email_failed"] == [ID]


@pytest.mark.usefixtures("messages")
def test_commands_show_the_id(capsys: pytest.CaptureFixture[str]) -> None:
    """Text and JSON; of a fetch and of an e-mail."""
    with correlation.bound(ID):
        fetch, email = request_fetch("http://example.com/"), shipments.ship()
    for command, row in (("fetches", fetch), ("emails", email)):
        call_command(command, "show", str(row.pk))
        assert ID in capsys.readouterr().out
        call_command(command, "show", str(row.pk), "--json")
        assert json.loads(capsys.readouterr().out)["correlation_id"] == ID


def test_no_task_name_of_weir_is_left_out() -> None:
    """A new one would be named by whoever happened to wake it."""
    names = {value for name, value in vars(task_names).items() if name.isupper() and isinstance(value, str)}
    assert names == task_names.OF_WEIR
