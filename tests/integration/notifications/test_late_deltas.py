"""A delta that arrives late, when a pass may have repaired the number, or twice: it is not counted."""

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.conf import settings

from tests.integration.conftest import Eventually
from tests.integration.notifications.held_proxy import HeldProxy, held_proxy
from tests.integration.notifications.unread import MARKS, assert_exact, redis_at
from weir.notifications import counters, inbox, reconcile
from weir.notifications.models import Doubt
from weir.redis_link import calls, places
from weir.redis_link.calls import RedisLink
from weir.redis_link.keys import keys

pytestmark = MARKS


@pytest.fixture(autouse=True)
def _short_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "ANSWER_TIMEOUT_S", 0.3)


@pytest.fixture
def proxy(request: pytest.FixtureRequest) -> Iterator[HeldProxy]:
    path = settings.REDIS_URL.removeprefix("unix://")
    with held_proxy(path, reads=getattr(request, "param", True)) as made, redis_at(made.url):
        inbox.notify(1, "news", "arrives at once")
        yield made


def past_its_deadline(valkey: redis.Redis, eventually: Eventually) -> None:
    """Wait until calls that were sent before are past their deadline by Redis' clock."""
    since = now_us(valkey)
    eventually(
        lambda: now_us(valkey) > since + (places.ANSWER_TIMEOUT_S + calls.SLACK_S) * 1_000_000, "the deadline to pass"
    )


def now_us(valkey: redis.Redis) -> int:
    seconds, microseconds = valkey.time()
    return int(seconds) * 1_000_000 + int(microseconds)


@pytest.mark.usefixtures("looks_at_once")
def test_a_delta_that_the_network_held_is_not_counted_twice(
    proxy: HeldProxy, valkey: redis.Redis, eventually: Eventually
) -> None:
    """Its user became a doubt, and a pass repaired the number before the network delivered it."""
    proxy.hold()
    inbox.notify(1, "news", "is held")
    assert set(Doubt.objects.values_list("pk", flat=True)) == {1}
    with redis_at("unix://" + str(valkey.connection_pool.connection_kwargs["path"])):
        report = reconcile.run_pass()
        assert report
        assert report.repaired.first == {1: 1}
        past_its_deadline(valkey, eventually)
        answers = proxy.answers
        proxy.let_go()
        eventually(lambda: proxy.answers > answers, "Redis to answer")
        assert_exact()


@pytest.mark.parametrize("proxy", [False], indirect=True, ids=["unread by the proxy"])
def test_what_the_kernel_has_not_sent_is_dropped_with_the_connection(
    proxy: HeldProxy, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """This needs no deadline."""
    monkeypatch.setattr(calls, "SLACK_S", 60.0)
    proxy.hold()
    with pytest.raises(counters.RedisUnreachable):
        counters.add(dict.fromkeys(range(10, 10 + counters.AT_ONCE), 1))
    before = valkey.info("clients")["connected_clients"]
    proxy.let_go()
    eventually(lambda: valkey.info("clients")["connected_clients"] < before, "the proxy to see the end")
    assert valkey.zrange(keys().open, 0, -1) == [b"1"]


def test_a_delta_that_a_stopped_server_finds_when_it_goes_on_is_not_counted(
    own_broker: redis.Redis, eventually: Eventually
) -> None:
    """The delta was in the server's own socket all the time."""
    server = int(own_broker.info("server")["process_id"])
    with redis_at("unix://" + str(own_broker.connection_pool.connection_kwargs["path"])):
        counters.add({1: 1})
        os.kill(server, signal.SIGSTOP)
        try:
            with pytest.raises(counters.RedisUnreachable):
                counters.add({1: 1})
            sent_at = time.monotonic()
            eventually(lambda: time.monotonic() > sent_at + calls.SLACK_S, "the deadline to pass")
        finally:
            os.kill(server, signal.SIGCONT)
        eventually(own_broker.ping, "the server to go on")
        assert own_broker.zscore(keys().open, 1) == 1


@pytest.mark.usefixtures("no_witness")
def test_a_delta_that_arrives_twice_is_counted_once(
    valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """Whatever connection brings the copy. Once a copy would be too late, Redis does not remember the first call."""
    sent: list[tuple[Any, ...]] = []
    run = RedisLink.run

    def noted(link: RedisLink, *what: Any) -> Any:
        sent.append(what)
        return run(link, *what)

    monkeypatch.setattr(RedisLink, "run", noted)
    counters.add({1: 1, 2: -1})
    copy = sent[-1]
    counters.add({1: 1})
    assert calls.run(*copy) > 0
    calls._idle.clear()
    assert calls.run(*copy) > 0
    assert {user: counters.peek([user]).after(0, user) for user in (1, 2)} == {1: 2, 2: -1}
    past_its_deadline(valkey, eventually)
    assert calls.run(*copy) < 0
    counters.add({1: 1})
    assert {user: counters.peek([user]).after(0, user) for user in (1, 2)} == {1: 3, 2: -1}
    assert valkey.zcard(keys().calls) == 2
    counters.seal()
    assert valkey.zcard(keys().calls) == 1


@pytest.mark.usefixtures("no_witness")
def test_a_clock_of_redis_that_is_set_back_has_no_delta_taken_for_a_copy() -> None:
    """A connection whose deadlines do not grow any more goes on under another name."""
    counters.add({1: 1})
    [link] = calls._idle
    link.ahead_s += 60.0  # as if Redis' clock were a minute fast, until after the next
    counters.add({1: 1})
    counters.add({1: 1})
    assert counters.peek([1]).after(0, 1) == 3


@pytest.mark.usefixtures("no_witness")
@pytest.mark.parametrize(("step_s", "added"), [(-3.0, False), (-0.1, True), (3.0, True)])
def test_a_clock_of_redis_that_is_set_costs_a_delta_at_most(step_s: float, added: bool) -> None:
    """Set forward, Redis refuses what seems late, and returns its time; the next delta is accepted."""
    counters.add({1: 1})
    [link] = calls._idle
    link.ahead_s += step_s  # as if Redis' clock had been set the other way
    if added:
        counters.add({1: 1})
    else:
        with pytest.raises(counters.RedisUnreachable, match="too late"):
            counters.add({1: 1})
    counters.add({1: 1})
    assert counters.peek([1]).after(0, 1) == 2 + added


@pytest.mark.usefixtures("no_witness")
def test_the_clock_is_asked_for_again_when_its_time_is_not_known_any_more(valkey: redis.Redis) -> None:
    """Clocks drift apart, so a process that has sent nothing for a while asks first."""
    counters.add({1: 1})
    [link] = calls._idle
    link.ahead_s, link.known_until = -1_000.0, time.monotonic() - 1
    counters.add({1: 1})
    assert counters.peek([1]).after(0, 1) == 2
    link.ahead_s += 0.01
    before = valkey.info("commandstats")["cmdstat_time"]["calls"]
    counters.add({1: 1})
    assert valkey.info("commandstats")["cmdstat_time"]["calls"] == before + 1  # the script's own
