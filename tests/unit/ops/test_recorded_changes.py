"""The values of the audit trail, as pages show them."""

from datetime import timedelta

from django.utils.duration import duration_iso_string

from tests.cases import for_each
from weir.ops.templatetags.weir_ops import recorded_changes
from weir.workers.audit.models import Entry


@for_each(
    ("value", "shown"),
    [
        (None, "none"),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        ([], "none"),
        ("", "none"),
        ([403, 999], "403, 999"),
        ({"17": -5, "\x1b": None}, "17: -5, \ufffd: none"),
        (duration_iso_string(timedelta(milliseconds=50)), "50ms"),
        (duration_iso_string(timedelta(days=1, seconds=1)), "86401s"),
        ("2026-01-02T03:04:05.678Z", "2026-01-02 03:04:05 UTC"),
        ("9999-01-01T00:00:00Z", "an operator resumes it"),
        ("2026-13-02T03:04:05Z", "2026-13-02T03:04:05Z"),
        ("2026-01-02T03:04:05", "2026-01-02T03:04:05"),
        ("P1D", "P1D"),
        (f"P{'9' * 20}DT00H00M00S", f"P{'9' * 20}DT00H00M00S"),
        ("two\nlines\x1b", "two lines\ufffd"),
        ("x" * 200, "x" * 119 + "…"),
    ],
)
def test_a_value_is_shown_as_a_person_writes_it(value: object, shown: str) -> None:
    """Whatever it was before; and alone if what was before is not kept."""
    assert recorded_changes(Entry(before={"of_it": "x"}, after={"of_it": value})) == [f"of it: x → {shown}"]
    if value is not None:
        assert recorded_changes(Entry(before=None, after={"of_it": value})) == [f"of it: {shown}"]


def test_what_is_gone_was_there() -> None:
    assert recorded_changes(Entry(before={"rate": "3/s"}, after=None)) == ["rate: 3/s → none"]


def test_what_is_as_before_is_left_out() -> None:
    assert recorded_changes(Entry(before={"a": 1, "b": [2]}, after={"a": 1, "b": [2]})) == []
