"""SIGKILL at every step, and a hostile API at a rate: no request is made twice, or early, by the API's own book."""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain, count, pairwise
from pathlib import Path

import pytest
from pytest_django import Settings

from demo.fakes.site_log import Arrival
from tests.acceptance.conftest import ALLOW_NETS
from tests.acceptance.effects import order_api, order_kinds
from tests.acceptance.effects import order_processes as roles
from tests.acceptance.effects.order_api import DONE_BY_STATUS, OrderApi
from tests.acceptance.effects.order_kinds import BLIND, KEYED, KINDS, PROBED
from tests.acceptance.judging import early
from tests.acceptance.processes import Processes
from tests.waiting import wait_for
from weir.ratelimit import site_settings
from weir.workers.effects.models import Effect
from weir.workers.effects.performing.leases import LEDGER
from weir.workers.fetches.models import Fetch, FetchState

AT_LENGTH = "WEIR_FAULTS" in os.environ
KILLS = 120 if AT_LENGTH else 0  # at random
KILLS_A_STEP = 9 if AT_LENGTH else 1
STEPS = (*roles.OF_FETCHERS, *roles.OF_MAILERS) if AT_LENGTH else roles.AROUND_BEGIN
ORDERS = 500 if AT_LENGTH else 30
RATE, INTERVAL_S = "25/s", 0.04
APIS = 2  # of each kind
BUSY = 60 if AT_LENGTH else 15  # orders that wait, at least
AT_ONCE = 6  # processes that are to kill themselves
PLAIN = 10  # ordinary orders to one of each other word
SETTINGS = {
    "WEIR_FETCH_ALLOW_NETS": [ALLOW_NETS],
    "WEIR_FETCH_TIMEOUT": order_api.TIMEOUT_S,
    "WEIR_FETCH_CONNECT_TIMEOUT": 0.4,
    "WEIR_FETCH_DNS_TIMEOUT": 0.2,
    "WEIR_EFFECT_LEASE": 2.0,
    "WEIR_EFFECT_UNKNOWN_AFTER": 4.0,
    "WEIR_EFFECT_MAX_ATTEMPTS": 1_000,  # of those whose mailers are killed again and again
    "WEIR_OBEY_ROBOTS": False,
}


@pytest.fixture
def chance() -> random.Random:
    return random.Random(os.environ.get("WEIR_FAULTS_SEED", "weir"))  # noqa: S311  who is killed, and when


@pytest.fixture
def apis() -> Iterator[dict[str, list[OrderApi]]]:
    """Run APIs that keep keys, for one kind, and APIs that keep none, for the others."""
    with ExitStack() as leaving:
        made = {
            kind: [
                leaving.enter_context(order_api.running(f"127.1.{9 + number}.{place + 1}", keeps_keys=kind == KEYED))
                for place in range(APIS)
            ]
            for number, kind in enumerate(KINDS)
        }
        yield made


@pytest.fixture
def processes(transactional_db: None, tmp_path: Path, settings: Settings) -> Iterator[Processes]:  # noqa: ARG001  must come first
    for name, value in SETTINGS.items():
        setattr(settings, name, value)
    made = Processes(tmp_path, roles.__name__, *SETTINGS)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.faults
def test_whoever_is_killed_no_request_is_made_twice_or_early(
    processes: Processes, apis: dict[str, list[OrderApi]], chance: random.Random
) -> None:
    """Fetchers and mailers are killed at random and at each step; APIs cut, stall, fail; judged by their own books."""
    for api in [*chain.from_iterable(apis.values())]:
        site_settings.set_rate(api.address, RATE)
    names = count()
    ask(apis, ORDERS, names, chance)
    at_work = [
        (role, processes.start(role, processes.stop)) for role in (*[roles.keep_fetching] * 2, roles.keep_mailing)
    ]
    killed: Counter[str] = Counter()
    pids: set[int | None] = set()
    steps = [*STEPS] * KILLS_A_STEP
    chance.shuffle(steps)
    for first in range(0, len(steps), AT_ONCE):
        together = [
            processes.start(
                roles.keep_mailing if step in roles.OF_MAILERS else roles.keep_fetching, processes.stop, step
            )
            for step in steps[first : first + AT_ONCE]
        ]
        keep_busy_until(lambda: not any(process.is_alive() for process in together), apis, names, chance)  # noqa: B023
        for process in together:
            processes.gone(process)
        killed.update(steps[first : first + AT_ONCE])
        pids |= {process.pid for process in together}
    for _ in range(KILLS):
        time.sleep(chance.uniform(0.0, 0.4))  # chance decides when
        keep_busy_until(lambda: True, apis, names, chance)
        role, process = at_work.pop(0)
        processes.kill(process)
        pids.add(process.pid)
        at_work.append((role, processes.start(role, processes.stop)))
        killed["at random"] += 1
    wait_for(lambda: not unfinished(), 300 if AT_LENGTH else 30, "every order to end")
    if AT_LENGTH:  # fetchers take their time to stop
        processes.finish()
    judge(apis, killed, pids)


def keep_busy_until(
    condition: Callable[[], bool], apis: dict[str, list[OrderApi]], names: Iterator[int], chance: random.Random
) -> None:
    """Ask for more orders, among them one that needs its probe, whenever few wait, until the condition holds."""

    def holds() -> bool:
        if waiting() < BUSY:
            order_kinds.order(PROBED, chance.choice(apis[PROBED]).address, f"cut-done.{next(names)}")
            ask(apis, BUSY, names, chance)
        return condition()

    wait_for(holds, 60, "the processes to kill themselves")


def ask(apis: dict[str, list[OrderApi]], number: int, names: Iterator[int], chance: random.Random) -> None:
    """Ask for so many orders, of all kinds, at all APIs."""
    words = ["plain"] * PLAIN * len(order_api.WORDS) + [*order_api.WORDS] * len(KINDS)
    for kind in chance.choices(KINDS, k=number):
        order_kinds.order(kind, chance.choice(apis[kind]).address, f"{chance.choice(words)}.{next(names)}")


def judge(apis: dict[str, list[OrderApi]], killed: Counter[str], pids: set[int | None]) -> None:
    """Fail if anything was made twice or early, is not what its state says, or is unknown without a cause."""
    every = [*chain.from_iterable(apis.values())]
    taken = sum((api.taken() for api in every), start=Counter[str]())
    effects = list(Effect.objects.all())
    arrivals = [arrival for api in every for arrival in api.arrivals]
    intervals = {api.address.partition(":")[0]: INTERVAL_S for api in every}
    gaps = [gap for host in intervals for gap in gaps_of(host, arrivals)]
    print(f"\n{sum(killed.values())} kills: {dict(killed)}")
    print(f"{len(effects)} requests: {dict(Counter(f'{effect.kind} {effect.state}' for effect in effects))}")
    print(f"{len(arrivals)} arrivals, shortest gap {min(gaps) / 1e6:.3f} ms, early {early(arrivals, intervals)}")
    assert [order for order, times in taken.items() if times > 1] == []
    assert early(arrivals, intervals) == 0
    assert taken.keys() <= {effect.key for effect in effects}
    answers = {fetch.effect_id: fetch for fetch in Fetch.objects.all()}
    for effect in effects:
        fetch = answers[effect.pk]
        if effect.state == "done" and isinstance(effect.result, dict):
            status = effect.result["status"]
            assert (fetch.state, fetch.status_code, effect.result["fetch"]) == (FetchState.DONE, status, fetch.pk)
            assert taken[effect.key] == DONE_BY_STATUS[status], (effect, effect.last_reply)
        elif effect.state == "done":
            assert (effect.kind, effect.result, taken[effect.key]) == (PROBED, "taken", 1), (effect, effect.last_reply)
            assert fetch.state == FetchState.FAILED
        else:
            assert (effect.state, effect.kind) == ("unknown", BLIND), (effect, effect.kind, effect.last_reply)
            assert fetch.state == FetchState.FAILED, fetch
            is_killed = effect.last_reply == LEDGER.no_word and int(effect.claimed_by.rpartition(":")[2]) in pids
            assert is_killed or effect.key.startswith(order_api.UNANSWERED), (effect, effect.last_reply)


def gaps_of(host: str, arrivals: list[Arrival]) -> list[int]:
    """Return the gaps between the requests that came to a host, in ns."""
    times = sorted(arrival.at_ns for arrival in arrivals if arrival.host == host)
    return [later - earlier for earlier, later in pairwise(times)]


def waiting() -> int:
    """Return how many orders have not been made."""
    return Fetch.objects.unfinished().count()


def unfinished() -> bool:
    """Return whether an effect, or a fetch, will still change by itself."""
    return waiting() > 0 or Effect.objects.filter(state__in=("pending", "claimed", "begun")).exists()
