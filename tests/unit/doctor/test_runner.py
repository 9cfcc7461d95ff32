"""No check ends or hangs the command: whatever happens in one becomes a finding, and the others are asked."""

import threading
from collections.abc import Sequence

import pytest
from django.db import OperationalError

from project.doctor import report, runner
from project.doctor.findings import Check, Finding, Level, Theme, Verdict, good, not_checked, warning, wrong
from tests.cases import for_each
from weir.notifications import counters

FINE = Check(name="fine", ask=lambda: good("All is well."))


def raising(error: Exception, **fields: object) -> Check:
    """Return a check that raises this."""

    def ask() -> Verdict:
        raise error

    return Check(name="raises", ask=ask, **fields)  # type: ignore[arg-type]


def found(*checks: Check) -> list[Finding]:
    return [*runner.findings([Theme("Theme", checks)])]


def said(findings: Sequence[Finding]) -> list[tuple[str, str, str]]:
    return [(finding.name, finding.level, finding.sentence) for finding in findings]


def test_each_check_is_a_finding() -> None:
    """With its theme, its name, its level and its sentence."""
    assert found(FINE) == [Finding("Theme", "fine", Level.GOOD, "All is well.")]


def test_a_check_may_find_several_things() -> None:
    """Each under a name of its own, or the check's."""
    several = Check(name="settings", ask=lambda: [Verdict(Level.WRONG, "One.", "weir.E001"), warning("Two.")])
    assert said(found(several)) == [("weir.E001", "wrong", "One."), ("settings", "warning", "Two.")]


def test_an_error_that_nobody_expected_is_a_finding() -> None:
    """It asks for a report, and the next check is asked."""
    told = "The check itself failed (ValueError: a bug): please report that."
    assert said(found(raising(ValueError("a bug")), FINE)) == [
        ("raises", "wrong", told),
        ("fine", "good", "All is well."),
    ]


def test_the_error_of_a_server_is_told_as_any_command_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """But without the advice to run this command."""
    monkeypatch.setenv("REDIS_URL", "redis://:s3cret@cache.example:6379/0")
    told = "Redis at cache.example:6379/0 does not work (no *** here): check REDIS_URL."
    assert said(found(raising(counters.RedisUnreachable("no s3cret here")))) == [("raises", "wrong", told)]


def test_no_finding_shows_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a server or a library says."""
    monkeypatch.setenv("EMAIL_HOST_PASSWORD", "s3cret")
    asked = found(Check(name="mail", ask=lambda: wrong("535 s3cret is wrong.")), raising(KeyError("s3cret")))
    assert "s3cret" not in str(asked)
    assert [finding.sentence.count("***") for finding in asked] == [1, 1]


def test_a_check_that_hangs_is_left_behind() -> None:
    """It is told with its time limit; the others are asked by another thread."""
    never = threading.Event()

    def hang() -> Verdict:
        never.wait(60)
        return good("Late.")

    hanging = Check(name="hangs", ask=hang, within_s=0.1, at_worst=Level.WARNING)
    assert said(found(hanging, FINE)) == [
        ("hangs", "warning", "There was no answer within 0.1 s."),
        ("fine", "good", "All is well."),
    ]
    never.set()


@for_each(
    ("server", "works"),
    [
        (lambda: good("It is there."), True),
        (lambda: warning("It is far."), True),
        (lambda: wrong("It is away."), False),
        (lambda: not_checked("Nobody knows."), False),
        (lambda: (_ for _ in ()).throw(OperationalError("away")), False),
    ],
)
def test_what_needs_a_server_that_does_not_work_is_not_asked(server: object, works: bool) -> None:
    """It is not checked, which is not its fault; nor is what needs that."""
    asked = found(
        Check(name="server", ask=server, provides="the server"),  # type: ignore[arg-type]
        Check(name="tables", ask=lambda: good("They are there."), needs=("the server",), provides="the tables"),
        Check(name="rows", ask=lambda: good("They are there."), needs=("the server", "the tables")),
    )
    expected = "They are there." if works else "It needs the server."
    assert [finding.sentence for finding in asked[1:]] == [expected] * 2
    assert {finding.level for finding in asked[1:]} == {Level.GOOD if works else Level.NOT_CHECKED}


def test_lines_are_aligned_and_counted() -> None:
    """A level, a name and a sentence a line, which is read without colour; the total is a sentence."""
    lines = [
        report.line(finding)
        for finding in found(FINE, Check(name="a name", ask=lambda: wrong("Mend it.")), raising(ValueError()))
    ]
    assert {line.index(word) for line, word in zip(lines, ("fine", "a name", "raises"), strict=True)} == {15}
    assert {line.index(word) for line, word in zip(lines, ("All", "Mend", "The check"), strict=True)} == {35}
    assert report.total(found(FINE, FINE, raising(ValueError()))) == "2 good, 0 warning, 1 wrong, 0 not checked."


def test_only_what_is_wrong_makes_it_fail() -> None:
    """Warnings, and what could not be checked, do not."""
    harmless = [Check(name="a", ask=lambda: warning("A.")), Check(name="b", ask=lambda: not_checked("B."))]
    assert report.is_well(found(FINE, *harmless))
    assert not report.is_well(found(FINE, *harmless, Check(name="c", ask=lambda: wrong("C."))))
