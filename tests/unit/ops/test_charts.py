"""Charts: what is drawn, what is a gap, and what is said in words."""

from weir.ops.charts import Chart, ChartGap, Series, chart


def drawn(*values: float | None, more: tuple[float | None, ...] = ()) -> Chart:
    series = [Series(name="done", css="area", values=values)]
    if more:
        series.append(Series(name="failed", css="area-bad", values=more))
    return chart("Fetches", series, step="1 h", over="24 h")


def test_a_step_of_which_nothing_is_known_is_a_gap_and_no_zero() -> None:
    """The area ends before it, and begins again behind it."""
    found = drawn(1, None, None, 2)
    assert found.gaps == (ChartGap(first=1, points=2),)
    [(_, path)] = found.areas
    assert path == "M0 100V50H1V100zM3 100V0H4V100z"
    assert "Of 2 of 4 steps of 1 h, nothing is known." in found.alternative


def test_zeros_are_drawn_as_zeros() -> None:
    """Nothing happened, and that is known."""
    found = drawn(0, 0)
    assert found.gaps == ()
    assert found.areas == (("area", "M0 100V100H1V100H2V100z"),)


def test_series_stand_on_each_other() -> None:
    """The sum is the highest area, and is drawn first."""
    found = drawn(1, 1, more=(1, 3))
    assert found.areas == (
        ("area-bad", "M0 100V50H1V0H2V100z"),
        ("area", "M0 100V75H1V75H2V100z"),
    )
    assert "2 done, 4 failed" in found.alternative
    assert found.keys == (("area", "done"), ("area-bad", "failed"))
    assert (found.most, found.begins) == ("at most 4 in 1 h", "24 h ago")


def test_a_chart_of_nothing_says_so() -> None:
    """Before the first rollup."""
    found = drawn(None, None)
    assert found.is_empty
    assert found.keys == (("area", "done"), ("gap", "not known"))
    assert found.alternative == "Fetches: nothing is known of the last 24 h yet."
