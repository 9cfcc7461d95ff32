"""What one process knows of robots.txt files: looked up and parsed once, and not for too long."""

from datetime import timedelta
from typing import Any

import pytest

from tests.integration.conftest import database_now
from tests.integration.robots.conftest import ORIGIN, PAGE, RULES, Elapse, known, robots_fetches
from weir.postgres import statements
from weir.postgres.statements import Statement
from weir.ratelimit.models import Site
from weir.workers.fetches.models import RobotsFile, RobotsState
from weir.workers.fetches.robots import files as robots_files
from weir.workers.fetches.robots import rules as robots_rules
from weir.workers.fetches.robots import trials as robots_trials
from weir.workers.fetches.robots.files import RECHECK_AFTER, RobotsFiles
from weir.workers.fetches.robots.rules import Rules
from weir.workers.fetches.robots.trials import Allowance

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]


def texts_parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each text is added that is parsed."""
    parsed: list[str] = []

    def noting(text: str, product: str) -> Rules:
        parsed.append(text)
        return Rules(text, product)

    monkeypatch.setattr(robots_files, "Rules", noting)
    return parsed


def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return a list to which each statement is added, with the number of origins that it is about."""
    executed: list[tuple[str, int]] = []
    execute = statements.execute

    def noting(statement: Statement[Any], parameters: Any, *database: Any) -> Any:
        if statement in (robots_files.KNOWN_ROBOTS, robots_files.ASK_ROBOTS):
            executed.append((statement.name, len(parameters["origins"])))
        return execute(statement, parameters, *database)

    monkeypatch.setattr(statements, "execute", noting)
    return executed


def test_a_known_origin_costs_no_query(files: RobotsFiles, monkeypatch: pytest.MonkeyPatch, elapse: Elapse) -> None:
    """One look serves all messages of a minute; another one does not parse what has not changed."""
    executed, parsed = asked(monkeypatch), texts_parsed(monkeypatch)
    known(rules=RULES)
    sites = {ORIGIN: Site.objects.get().pk}
    for _ in range(3):
        assert files.known(sites)[ORIGIN].rules is not None
    elapse(RECHECK_AFTER - 1)
    files.known(sites)
    assert (executed, len(parsed)) == ([("known_robots", 1)], 1)
    elapse(2)
    assert files.known(sites)[ORIGIN].rules is not None
    assert (len(executed), len(parsed)) == (2, 1)


def test_unknown_origins_are_looked_up_in_one_query(files: RobotsFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message with many origins asks once what is known, and once for the rest."""
    executed = asked(monkeypatch)
    origins = [f"https://{number}.example" for number in range(10)]
    sites = {origin: known(origin).site_id for origin in origins}
    RobotsFile.objects.filter(origin__in=origins[:4]).delete()
    assert len(files.known(sites)) == 6
    assert executed == [("known_robots", 10), ("ask_robots", 4)]
    assert len(robots_fetches()) == 4


def test_new_rules_are_heard_of_within_a_minute(files: RobotsFiles, elapse: Elapse) -> None:
    """Whichever process fetched them."""
    known(rules=RULES)
    sites = {ORIGIN: Site.objects.get().pk}
    assert files.known(sites)[ORIGIN].state == RobotsState.RULES
    known(state=RobotsState.ALLOWED, rules="")
    RobotsFile.objects.update(state=RobotsState.ALLOWED)
    elapse(RECHECK_AFTER)
    assert files.known(sites)[ORIGIN].state == RobotsState.ALLOWED


def test_what_expires_is_not_used_any_longer(files: RobotsFiles, elapse: Elapse) -> None:
    """Also between two looks: the time is that of this process' monotonic clock."""
    soon = database_now() + timedelta(seconds=30)
    known(expires_at=soon, refresh_at=soon)
    sites = {ORIGIN: Site.objects.get().pk}
    assert ORIGIN in files.known(sites)
    RobotsFile.objects.all().delete()
    assert ORIGIN in files.known(sites)
    elapse(31)
    assert files.known(sites) == {}


def test_what_is_looked_up_again_is_counted_once(
    files: RobotsFiles, monkeypatch: pytest.MonkeyPatch, elapse: Elapse
) -> None:
    """What fits is not forgotten for having been known for long."""
    monkeypatch.setattr(robots_files, "MOST_BYTES", 3 * Rules(RULES, "weir").size)
    parsed = texts_parsed(monkeypatch)
    sites = {
        f"https://{number}.example": known(f"https://{number}.example", rules=RULES).site_id for number in range(3)
    }
    for _ in range(4):
        assert len(files.known(sites)) == 3
        elapse(RECHECK_AFTER + 1)
    assert len(parsed) == 3


@pytest.mark.parametrize("limit", ["MOST_ORIGINS", "MOST_BYTES"])
def test_what_is_remembered_is_bounded(files: RobotsFiles, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """By number and by size; what was used last stays."""
    monkeypatch.setattr(robots_files, limit, 3 if limit == "MOST_ORIGINS" else 3 * Rules(RULES, "weir").size)
    sites = {
        f"https://{number}.example": known(f"https://{number}.example", rules=RULES).site_id for number in range(5)
    }
    assert len(files.known(sites)) == 5, "what one message needs is there for it"
    assert list(files._known) == list(sites)[2:]
    files.known(dict(list(sites.items())[2:3]))
    files.known(dict(list(sites.items())[:1]))
    assert list(files._known) == [list(sites)[place] for place in (4, 2, 0)]
    assert files._bytes == 3 * Rules(RULES, "weir").size


def test_rules_that_could_not_be_parsed_are_parsed_again(
    files: RobotsFiles, monkeypatch: pytest.MonkeyPatch, elapse: Elapse
) -> None:
    """A process that knows their text has not read it."""
    sites = {ORIGIN: known(rules=RULES).site_id}
    with monkeypatch.context() as patched:
        patched.setattr(robots_files, "Rules", lambda *_arguments: 1 / 0)
        assert files.known(sites)[ORIGIN].state == RobotsState.UNREACHABLE
    elapse(RECHECK_AFTER)
    assert files.known(sites)[ORIGIN].rules is not None


def test_rules_that_take_long_to_parse_are_parsed_over_several_claims(
    files: RobotsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each claim gets on by one at least, and nothing is asked for again."""
    monkeypatch.setattr(robots_trials, "FREE_S", 0.0)
    origins = ["https://1.example", "https://2.example", "https://3.example"]
    sites = {origin: known(origin, rules=RULES).site_id for origin in origins}
    assert [sorted(files.known(sites)) for _ in origins] == [origins[:1], origins[:2], origins]
    assert robots_fetches() == []


def test_large_texts_are_read_one_after_the_other(files: RobotsFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """The short ones first, and at least one at a time; nothing is asked for again, and what is known is not read."""
    monkeypatch.setattr(robots_files, "MOST_READ", 3_000)
    long = {f"https://{letter}.example": f"{RULES}#{letter * size}" for letter, size in (("c", 2_500), ("a", 2_600))}
    long["https://b.example"] = f"{RULES}#{'b' * 9_000}"
    sites = {origin: known(origin, rules=text).site_id for origin, text in long.items()}
    sites |= {"https://short.example": known("https://short.example", rules=RULES).site_id}
    sites |= {"https://none.example": known("https://none.example").site_id}
    first, second, third = (sorted(files.known(sites)) for _ in range(3))
    assert first == ["https://c.example", "https://none.example", "https://short.example"]
    assert second == ["https://a.example", *first]
    assert third == ["https://a.example", "https://b.example", *first]
    assert robots_fetches() == []


def test_large_texts_are_parsed_as_far_as_the_allowance_lasts(
    files: RobotsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small ones are always; and the large ones come in time."""
    monkeypatch.setattr(robots_files, "LARGE", 1_000)
    left = [False]
    monkeypatch.setattr(Allowance, "is_left", lambda _allowance: left[0])
    sites = {origin: known(origin, rules=RULES).site_id for origin in ("https://1.example", "https://2.example")}
    sites |= {"https://large.example": known("https://large.example", rules=RULES + "#" * 2_000).site_id}
    assert sorted(files.known(sites)) == ["https://1.example", "https://2.example"]
    left[0] = True
    assert len(files.known(sites)) == 3
    assert robots_fetches() == []


@pytest.mark.parametrize("how", ["forgotten", "new"])
def test_a_trial_keeps_no_rules_that_are_forgotten(
    files: RobotsFiles, monkeypatch: pytest.MonkeyPatch, elapse: Elapse, how: str
) -> None:
    """What is remembered of rules has a bound, which those that take long to apply do not get around."""
    monkeypatch.setattr(robots_rules, "STEP", 0)
    sites = {ORIGIN: known(rules="User-agent: *\n" + "Disallow: /*abcdef\nDisallow: /*ghijkl\n").site_id}
    rules = files.known(sites)[ORIGIN].rules
    assert rules is not None
    trial = files.trials.begin(PAGE, rules)
    assert files.known(sites)
    assert files.trials.begin(PAGE, rules) is trial
    if how == "new":
        known(rules=RULES)
        elapse(RECHECK_AFTER)
    else:
        monkeypatch.setattr(robots_files, "MOST_BYTES", 0)
    files.known(sites)
    assert files.trials.begin(PAGE, rules) is not trial
