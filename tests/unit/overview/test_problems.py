"""What `manage.py status` finds wrong: one sentence each, with what to do next."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from project.checkout import CHECKOUT
from tests.cases import for_each
from weir.workers.overview.locks import LockHolder
from weir.workers.overview.overview import MOST, Numbers, Overview
from weir.workers.overview.problems import NEEDED, Target, TargetKind, problems, shown
from weir.workers.processes.status import ProcessStatus

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOTHING: dict[str, Any] = {
    **dict.fromkeys(Numbers._fields, 0),
    "now": NOW,
    "trusted": True,
    "stalled_fetch": None,
    "halted_site": None,
    **dict.fromkeys(("stalled_sites", "halted_sites", "late_kinds", "unknown_kinds"), ()),
    "uncalled_task": None,
    "uncalled_as": None,
    **dict.fromkeys(("broken_endpoint", "broken_endpoint_name", "broken_endpoint_error")),
    "missed": None,
    "failing_kind": None,
    "failing_reply": None,
    "closed_because": "",
    "recovered_at": None,
}  # fmt: skip

HOLDER = LockHolder(
    pid=7, application_name="psql", role="ada", state="idle in transaction", open_s=7_500.0, sessions=2, waits_s=12.0
)


def process(kind: str, state: str = "alive", silent_s: float = 1.0) -> ProcessStatus:
    return ProcessStatus(1, kind, f"{kind}@host", "host", 7, "1.0", 0, NOW, NOW, 60.0, silent_s, False, state)


def seen(**numbers: Any) -> Overview:
    """Return an overview in which all is well but for these numbers."""
    return Overview(
        numbers=Numbers(**{**NOTHING, **numbers}),
        processes=[process(kind) for kind in NEEDED],
        messages={"default": 5, "ticks": 39, "fetch": 500, "maintenance": 39, "mail": 0},
        broker_error="",
    )


def test_where_all_is_well_nothing_is_found() -> None:
    """Work that waits, doubts, pauses that end and back-offs need nobody."""
    busy = seen(
        queued=MOST + 1, oldest_due_s=9e9, paused=3, backed_off=2, doubts=7, trusted=False, oldest_pending_s=9.0
    )
    assert list(problems(busy)) == []


WRONG = [
    (replace(seen(), broker_error="refused"), "The broker cannot be reached (refused): ", "start it, or "),
    (
        replace(seen(), broker_error="MISCONF No space left on device", broker_remedy="make room on its disk"),
        "The broker answers, and refuses what it is told (MISCONF No space left on device): ",
        "make room on its disk",
    ),
    (
        replace(seen(), holders=[HOLDER]),
        (
            "Process 7 of PostgreSQL (psql, role ada, idle in transaction) holds a lock for which 2 sessions wait, "
            "the longest for 12s; its transaction is open for 2h 05m."
        ),
        "end what it does there; where need be, SELECT pg_terminate_backend(7)",
    ),
    (  # of a role that may not see the others' sessions
        replace(seen(), holders=[HOLDER._replace(application_name="", state="", open_s=None, sessions=0)]),
        "Process 7 of PostgreSQL (role ada) holds a lock.",
        "end what it does there",
    ),
    (
        replace(seen(), holders=[HOLDER._replace(pid=0, role="")]),
        "A transaction that is prepared holds a lock for which others wait.",
        "SELECT * FROM pg_prepared_xacts, ",
    ),
    (replace(seen(), missing_migrations=1), "1 migration is not applied.", "manage.py migrate"),
    (
        seen(closed_because="Lost."),
        "Nothing is granted until that is settled: Lost.",
        "wait; ",
    ),
    (
        seen(recovered_at=NOW, recovered_because="It went back.", recovered_emails=3),
        "It went back. Weir recovered from that at 2026-01-01 00:00:00 UTC; 3 e-mails became unknown.",
        "docs/operations.md",
    ),
    (replace(seen(), processes=[]), "No process is known: nothing runs.", "make up, or "),
    (
        replace(seen(), processes=[process(kind) for kind in NEEDED if kind != "fetcher"]),
        "No fetcher is alive: no request is sent.",
        "manage.py processes",
    ),
    (
        replace(seen(), processes=[*seen().processes, process("mailer", "silent", 12.0)]),
        "mailer@host has been silent for 12s.",
        "manage.py processes",
    ),
    (
        replace(seen(), messages={"weir.fetch": 501}),
        "501 messages wait in the queue weir.fetch: ",
        "manage.py processes",
    ),
    (
        replace(seen(), messages={"weir.ticks": 40}),
        "40 messages wait in the queue weir.ticks: ",
        "manage.py processes",
    ),
    (
        seen(missed=900, missed_of=4_000),
        "Fetchers are behind: of 4,000 slots of the last minutes, 900 passed before one took them.",
        "start more fetchers",
    ),
    (
        seen(stalled=1, stalled_fetch=17),
        "Due fetches of 1 site do not start, though their rate would allow it.",
        "manage.py fetches why 17",
    ),
    (
        seen(halted=1, halted_site="a.example"),
        "Due fetches wait until an operator resumes a.example, which is paused.",
        "manage.py sites resume a.example",
    ),
    (
        seen(halted=2, halted_site="a.example"),
        "Due fetches of 2 sites wait until an operator resumes these, which are paused.",
        "manage.py sites list",
    ),
    (
        seen(uncalled=1, uncalled_task="shop.tasks.arived", uncalled_as="on_done"),
        "1 call of on_done was not made, as a worker does not know the task shop.tasks.arived.",
        "define this task, and restart the workers of its queue: it is called again every 5m 00s; manage.py",
    ),
    (
        seen(
            broken_endpoints=2,
            broken_endpoint=7,
            broken_endpoint_name="orders",
            broken_endpoint_error="it is gone",
        ),
        "Webhooks are not received by the endpoint orders and 1 other: it is gone.",
        "manage.py webhooks show 7",
    ),
    (
        seen(unknown=2, oldest_unknown_s=7_500.0),
        "2 e-mails may have arrived or not, the oldest for 2h 05m.",
        "manage.py emails list",
    ),
    (
        seen(pending=1, oldest_pending_s=601.0),
        "E-mails wait for the mail server, the oldest for 10m 01s.",
        "manage.py emails list --state pending",
    ),
    (
        seen(unknown_effects=1, oldest_unknown_effect_s=7_500.0),
        "1 effect may have happened or not, the oldest for 2h 05m.",
        "manage.py effects list",
    ),
    (
        seen(pending_effects=1, oldest_pending_effect_s=601.0),
        "Effects wait to begin, the oldest for 10m 01s.",
        "manage.py effects list --state pending",
    ),
]


@for_each(("overview", "sentence", "next_step"), WRONG)
def test_what_is_wrong_is_one_sentence_with_the_next_step(overview: Overview, sentence: str, next_step: str) -> None:
    """And nothing else is found."""
    [problem] = problems(overview)
    assert problem.text.startswith(sentence)
    assert problem.next_step.startswith(next_step)


@for_each("overview", [overview for overview, _, _ in WRONG])
def test_each_problem_has_its_section_of_the_documentation(overview: Overview) -> None:
    """Which begins with its heading."""
    [problem] = problems(overview)
    page = (CHECKOUT / "docs" / f"{problem.runbook.page}.md").read_text()
    assert f"\n## {problem.runbook.heading}\n" in page
    assert re.fullmatch(r"docs/[a-z/-]+\.md#[a-z-]+", problem.runbook.place)


@for_each(
    ("numbers", "targets"),
    [
        (
            {"stalled": 4, "stalled_fetch": 17, "stalled_sites": ["b.example", "a.example"]},
            [(TargetKind.FETCH, "17"), (TargetKind.SITE, "b.example"), (TargetKind.SITE, "a.example")],
        ),
        (
            {"halted": 1, "halted_site": "a.example", "halted_sites": ["a.example"]},
            [(TargetKind.PAUSED_SITE, "a.example")],
        ),
        (
            {"halted": 9, "halted_site": "a.example", "halted_sites": ["b.example", "a.example"]},
            [
                (TargetKind.SITES, "paused"),
                (TargetKind.PAUSED_SITE, "b.example"),
                (TargetKind.PAUSED_SITE, "a.example"),
            ],
        ),
        (
            {"unknown": 3, "unknown_kinds": ["news", "note"]},
            [
                (TargetKind.EMAILS, "unknown"),
                (TargetKind.EMAILS, "unknown", "news"),
                (TargetKind.EMAILS, "unknown", "note"),
            ],
        ),
        (
            {"failing": 30, "failing_of": 99, "failing_kind": "news", "failing_reply": "550 No"},
            [(TargetKind.EMAILS, "failed", "news"), (TargetKind.EMAIL_KIND, "news")],
        ),
        ({"failing": 30, "failing_of": 99}, [(TargetKind.EMAILS, "failed")]),
        (
            {"oldest_pending_s": 601.0, "late_kinds": ["news"]},
            [(TargetKind.EMAILS, "pending"), (TargetKind.EMAILS, "pending", "news")],
        ),
        ({"missed": 900, "missed_of": 4_000}, [(TargetKind.PROCESSES,)]),
    ],
)
def test_a_problem_names_what_it_is_about(numbers: dict[str, Any], targets: list[Any]) -> None:
    """First that on which a person acts, then the worst of its sites or kinds."""
    [problem] = problems(seen(**numbers))
    assert list(problem.targets) == [Target(*each) for each in targets]


@for_each(("number", "text"), [(0, "0"), (1_234, "1,234"), (MOST, "10,000"), (MOST + 1, "10,000+")])
def test_no_number_goes_beyond_what_was_counted(number: int, text: str) -> None:
    assert shown(number) == text


def test_many_silent_processes_have_a_few_sentences() -> None:
    """However many there are: the first are named, the others counted."""
    silent = [process("mailer", "silent", 12.0) for _ in range(125)]
    found = [problem.text for problem in problems(replace(seen(), processes=[*seen().processes, *silent]))]
    assert found == ["mailer@host has been silent for 12s."] * 5 + ["120 more processes are silent."]
