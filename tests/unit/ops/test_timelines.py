"""The picture of a site's slots: where strokes stand, in which row, and what is said in words."""

from weir.ops.timelines import LEFT, TOP, Picture, picture
from weir.workers.fetches.reports.timeline import Timeline, TimelineSlot


def drawn(*slots: tuple[float, str], past_s: float = 60.0, ahead_s: float = 26.0) -> Picture:
    """Draw slots by their starts and fates: ten units are a second."""
    found = [
        TimelineSlot(id=number, start_in_s=at, fate=fate, fetch_id=None, run_id=number, run_size=1)
        for number, (at, fate) in enumerate(slots)
    ]
    return picture(Timeline(slots=found, has_more=False, past_s=past_s, ahead_s=ahead_s, next_starts=[]))


def test_a_slot_is_a_stroke_in_the_row_of_its_fate() -> None:
    """At its start, of which now is in the middle."""
    found = drawn((-60, "used"), (0, "used"), (26, "reserved"))
    assert [(row.fate, row.slots, row.path) for row in found.rows[:3]] == [
        ("used", 2, f"M{LEFT} 8v14M{LEFT + 600} 8v14"),
        ("reserved", 1, f"M{LEFT + 860} 30v14"),
        ("given back", 0, ""),
    ]
    assert found.now_x == LEFT + 600


def test_a_slot_beyond_the_edges_is_drawn_at_the_edge() -> None:
    """Nothing is drawn over the names of the rows."""
    [row, *_] = drawn((-90, "used"), (90, "used")).rows
    assert row.path == f"M{LEFT} {TOP}v14M{LEFT + 860} {TOP}v14"


def test_each_fate_has_its_row_and_what_is_lost_its_colour() -> None:
    """Also one without slots; the picture is as high as its rows."""
    found = drawn()
    assert [(row.fate, row.css) for row in found.rows] == [
        ("used", "slots"),
        ("reserved", "slots"),
        ("given back", "slots-soft"),
        ("void", "slots-soft"),
        ("missed", "slots-bad"),
        ("unreported", "slots-bad"),
    ]
    assert (found.width, found.height) == (1_000, 160)
    assert [round(row.y - found.rows[0].y) for row in found.rows] == [0, 22, 44, 66, 88, 110]


def test_ticks_are_ten_seconds_apart_and_name_now() -> None:
    """All of them within the edges."""
    found = drawn(past_s=25, ahead_s=18)
    assert found.ticks == ((230.0, "-20 s"), (430.0, "-10 s"), (630.0, "now"), (830.0, "+10 s"))


def test_the_words_say_what_the_picture_shows() -> None:
    """Fates without slots are left out."""
    assert drawn((1, "used"), (2, "used"), (3, "missed")).alternative == (
        "Slots from 60 s ago to 26 s ahead: 2 used, 1 missed."
    )
    assert drawn().alternative == "Slots from 60 s ago to 26 s ahead: none."
