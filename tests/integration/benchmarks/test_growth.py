"""The benchmark of growth measures each curve at each size, and says how much it grows."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import growth
from benchmarks.figures import Figure, publish
from benchmarks.growth import curves, emails, ended, queued, sites, users
from benchmarks.growth.curves import Growth
from benchmarks.page.groups import GROWTH


@pytest.mark.parametrize(
    ("growing", "sizes", "others"),
    [
        (sites.SITES, (200, 300), {"fetch_1000"}),
        (queued.QUEUED, (2_000, 3_000), {"fetch_1000"}),
        (ended.ENDED, (2_000, 3_000), {"fetch_1000"}),
        (users.USERS, (500, 700), {"page_of_unread"}),
        # Fewer have none that is due. A statement that cannot be executed would end an hour's benchmark in the middle.
        (emails.EMAILS, (5_000, 6_000), {"find", "purge_renderings"}),
    ],
    ids=lambda value: value.name if isinstance(value, Growth) else "",
)
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("valkey")
def test_each_curve_has_its_points_and_an_exponent(
    growing: Growth, sizes: tuple[int, int], others: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is published is what the table is made of, and has what the page shows."""
    monkeypatch.setattr(curves, "ROUNDS", 1)
    publish(f"growth_{growing.name}", curves.measure(tmp_path, replace(growing, sizes=sizes)), tmp_path)
    found = curves.read(tmp_path, growing.name)
    assert {f"{growing.name}_{what}" for what in (*others, *GROWTH[growing.name].curves)} <= {*found}
    assert {tuple(size for size, _ in points) for points in found.values()} == {sizes}
    assert any((tmp_path / "growth").glob(f"{growing.name}_*{sizes[-1]}.txt"))


def test_the_exponent_is_that_of_the_growth() -> None:
    assert curves.exponent([(10, 3.0), (100, 30.0), (1_000, 300.0)]) == pytest.approx(1.0)
    assert curves.exponent([(10, 5.0), (100, 5.0), (1_000, 5.0)]) == pytest.approx(0.0)
    assert curves.in_words(1.0) == "ten times the size costs 10 times as much"
    assert curves.in_words(0.04) == "does not depend on the size"


def test_the_table_has_what_was_measured_in_any_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was not measured is left out, and so is a curve of one point."""
    figures = [Figure(name=f"growth_users_page_at_{size}", value=2.0, unit="ms") for size in (100, 1_000)]
    ended_in_the_middle = Figure(name="growth_users_flush_at_100", value=3.0, unit="ms")
    publish("growth_users", [*figures, ended_in_the_middle], tmp_path)
    capsys.readouterr()
    assert not list(growth.measure(tmp_path))
    table = capsys.readouterr().out
    assert "users_page" in table
    assert "does not depend on the size" in table
    assert "users_flush" not in table
    assert "queued" not in table
