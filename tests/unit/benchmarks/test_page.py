"""The page of figures has what was measured, beside its peers, and nothing else."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.figures import KEPT, PAGE
from benchmarks.page import capacity, groups, writing
from benchmarks.page.lines import TABLES
from benchmarks.page.numbers import Number, written
from benchmarks.provenance import FILE

RAN = {
    "day": "2026-11-28",
    "commit": "0123456789ab",
    "machine": "2 cores, 8 GiB, x86_64",
    "python": "3.11.2",
    "postgresql": "18.1",
    "valkey": "9.1.2",
    "peers": "scrapy 2.19.0",
    "sizes": "",
}
END_TO_END = {
    "end_to_end_weir": (4103.2, "fetches/s"),
    "end_to_end_scrapy": (999, "fetches/s"),
    "end_to_end_vs_scrapy": (4.2, "x"),
    "end_to_end_100_sites_weir_early_starts": (0, "requests"),
    "end_to_end_100_sites_scrapy_early_starts": (12, "requests"),
    "end_to_end_100_sites_weir_of_rates": (95, "%"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What `make bench` leaves: one benchmark has run, of which some figures are missing."""
    ran(tmp_path, "end_to_end", END_TO_END)
    return tmp_path


def ran(folder: Path, benchmark: str, figures: Mapping[str, tuple[float, str]], **changed: str) -> None:
    said = {name: {"value": value, "unit": unit} for name, (value, unit) in figures.items()}
    (folder / f"{benchmark}.json").write_text(json.dumps(said))
    file = folder / FILE
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**known, benchmark: {**RAN, **changed}}))


def made(folder: Path) -> str:
    page = folder / "measured.md"
    page.write_text(PAGE.read_text())
    writing.write(page, folder)
    return page.read_text()


def between(text: str, mark: str) -> list[str]:
    _, _, after = text.partition(f"<!-- begin: {mark} -->")
    return after.partition(f"<!-- end: {mark} -->")[0].strip().splitlines()


def test_a_figure_stands_beside_its_peer_with_the_ratio_of_the_rounds(folder: Path) -> None:
    """Which is another number than the quotient of the two; where there is none, nothing stands in its place."""
    table = between(made(folder), "wire of many")
    assert "| Fetches | 4,103 fetches/s | 999 fetches/s (4.2 x) |" in table
    ran(folder, "end_to_end", {name: of for name, of in END_TO_END.items() if name != "end_to_end_vs_scrapy"})
    table = between(made(folder), "wire of many")
    assert "| Fetches | 4,103 fetches/s | 999 fetches/s |" in table


def test_what_was_not_measured_is_left_out(folder: Path) -> None:
    """A peer, a line, a table: each is there only with a figure. A peer may have a figure in one line only."""
    text = made(folder)
    table = between(text, "wire")
    assert table == [
        "| | Weir | Scrapy |",
        "|---|---|---|",
        "| Early starts | 0 requests | 12 requests |",
        "| Share of the rate used | 95 % |  |",
    ]
    assert between(text, "mail") == ["Not measured yet: `make bench ARGS=once` does."]
    assert between(text, "growth") == ["Not measured yet: `make bench ARGS=growth` does."]
    assert between(text, "capacity reckoned") == ["Not measured yet: `make bench ARGS=capacity` does."]


def test_figures_of_which_nobody_knows_where_they_come_from_are_left_out(folder: Path) -> None:
    (folder / "once.json").write_text('{"once_send_due": {"value": 1, "unit": "e-mails/s"}}')
    assert between(made(folder), "mail") == ["Not measured yet: `make bench ARGS=once` does."]


def test_benchmarks_that_ran_alike_share_a_row(folder: Path) -> None:
    """Whichever peers were installed: those of all stand in one list. What all have in common has no column."""
    ran(folder, "unread", {})
    ran(folder, "idle", {}, peers="scrapy 2.19.0, limits 5.8.0")
    ran(folder, "once", {}, commit="ba9876543210 with changes", peers="celery 5.7.0")
    header, _, alike, other, _, common = between(made(folder), "provenance")
    assert header == "| Benchmarks | Day | Commit |"
    assert alike == "| end_to_end, unread, idle | 2026-11-28 | 0123456789ab |"
    assert other == "| once | 2026-11-28 | ba9876543210 with changes |"
    assert common == (
        "Machine: 2 cores, 8 GiB, x86_64. Python: 3.11.2. PostgreSQL: 18.1. Valkey: 9.1.2."
        " Peers: scrapy 2.19.0, limits 5.8.0, celery 5.7.0."
    )
    ran(folder, "once", {}, python="3.14.0")
    assert between(made(folder), "provenance")[0] == "| Benchmarks | Day | Commit | Python |"


def test_figures_of_full_size_are_kept_beside_those_of_other_benchmarks(folder: Path, tmp_path: Path) -> None:
    """Those that were measured again replace what was kept of them, and those of a developer's sizes do not."""
    kept = tmp_path / "kept"
    kept.mkdir()
    ran(kept, "unread", {"flush": (9, "rows/s")})
    ran(kept, "end_to_end", {"end_to_end_weir": (1, "fetches/s")}, commit="before")
    ran(kept, "once", {"once_send_due": (3, "e-mails/s")})
    ran(folder, "once", {"once_send_due": (4, "e-mails/s")}, sizes="WEIR_BENCH_ROUNDS=1")
    writing.keep(folder, kept)
    found = writing.read(kept)
    assert found.figures["unread"]["flush"].value == 9
    assert found.figures["once"]["once_send_due"].value == 3
    assert found.figures["end_to_end"].keys() == END_TO_END.keys()
    assert found.provenance["end_to_end"]["commit"] == RAN["commit"]
    assert not found.provenance["once"]["sizes"]


def test_a_page_that_is_written_twice_is_the_same(folder: Path) -> None:
    once = made(folder)
    (folder / "measured.md").write_text(once)
    writing.write(folder / "measured.md", folder)
    assert (folder / "measured.md").read_text() == once


def test_curves_have_their_points_in_order_and_their_exponents() -> None:
    of = {
        "growth_queued_claim_1000_at_1000": Number(5, "ms"),
        "growth_queued_tick_at_100000": Number(9.1, "ms"),
        "growth_queued_tick_at_1000": Number(3.24, "ms"),
        "growth_queued_tick_exponent": Number(-0.00001, ""),
        "growth_queued_tick_exponent_of_last_step": Number(1.26, ""),
        "growth_queued_other_at_1000": Number(7, "ms"),
        "queued_filled_at_1000": Number(7, "s"),
    }
    assert groups.growth(of).splitlines() == [
        "| Queued fetches | 1,000 | 100,000 | Exponent | Last step |",
        "|---|---|---|---|---|",
        "| A tick of dispatch that reserves nothing | 3.24 | 9.1 | 0.00 | 1.26 |",
        "| Claims of 1,000 | 5 |  | not fitted | not fitted |",
    ]


def test_a_far_database_has_a_row_for_each_distance() -> None:
    of = {"far_database_20_ms_jitter_0_ms_lateness_p99": Number(2.49, "ms")}
    assert groups.far(of).splitlines()[2:] == ["| 20 ms |  | 2.49 ms |  |"]


def test_idle_has_the_layouts_that_were_measured() -> None:
    of = {"idle_procfile_processor": Number(2.91, "% of a core"), "idle_split_memory": Number(612.4, "MB")}
    assert groups.idle(of).splitlines()[2:] == [
        "| Processor, servers included | 2.91 % of a core |  |",
        "| Memory, servers included |  | 612 MB |",
    ]


CAPACITY = {
    "capacity_commits_a_fetch": Number(0.5, "commits"),
    "capacity_commits_a_fetcher": Number(22, "commits/s"),
    "capacity_commits_of_others": Number(8, "commits/s"),
    "capacity_wal_a_fetch": Number(4, "KB"),
    "capacity_postgresql_a_fetch": Number(0.2, "ms of a core"),
    "capacity_postgresql_a_fetcher": Number(0.5, "% of a core"),
    "capacity_postgresql_of_others": Number(1, "% of a core"),
    "capacity_sessions_a_fetcher": Number(3, "connections"),
    "capacity_sessions_of_others": Number(7, "connections"),
    "capacity_sessions_at_most": Number(200, "connections (max_connections)"),
    "capacity_demand": Number(1000, "fetches/s"),
    "capacity_10_fetchers_postgresql": Number(0.3, "cores"),
    "capacity_1000_fetchers_postgresql": Number(1.6, "cores"),
}


def test_what_fetchers_need_is_the_sum_of_the_parts() -> None:
    """In cores, and in commits a second."""
    assert capacity.needed(CAPACITY, 10, 1_000) == pytest.approx((37, 0.01 + 0.05 + 0.2, 8 + 220 + 500))


def test_limits_come_in_the_order_in_which_fetchers_meet_them() -> None:
    """63 fetchers use all connections, and 200 a core. With cheaper sessions, the processor is first."""
    first, second, third, *_ = capacity.reckoned(CAPACITY).splitlines()
    assert first.startswith("1. **Connections**: the 200 of")
    assert "of 63 fetchers" in first
    assert second.startswith("2. **PostgreSQL's processor**")
    assert "at 200 of them" in second
    assert "stores 5,000/s" in third
    cheap = {**CAPACITY, "capacity_sessions_a_fetcher": Number(0.1, "connections")}
    assert capacity.reckoned(cheap).startswith("1. **PostgreSQL's processor**")


SIMULATED = {
    "capacity_10_fetchers_asked_in_time": Number(100, "%"),
    "capacity_10_fetchers_fetches": Number(990, "fetches/s"),
    "capacity_1000_fetchers_asked_in_time": Number(40, "%"),
    "capacity_1000_fetchers_fetches": Number(990, "fetches/s"),
}


def test_the_bottleneck_is_reached_where_the_fewest_fetchers_are_late() -> None:
    """By their queries, or by what is stored of the demand."""
    assert "The simulation reached its bottleneck with 1,000 fetchers." in capacity.measured(CAPACITY | SIMULATED)
    slow = {"capacity_10_fetchers_fetches": Number(949, "fetches/s")}
    assert "reached its bottleneck with 10 fetchers." in capacity.measured(CAPACITY | SIMULATED | slow)
    fast = {"capacity_1000_fetchers_asked_in_time": Number(99.5, "%")}
    assert "no bottleneck with 1,000 fetchers" in capacity.measured(CAPACITY | SIMULATED | fast)


def test_nothing_is_reckoned_of_parts_that_are_missing() -> None:
    assert capacity.reckoned({name: of for name, of in CAPACITY.items() if name != "capacity_commits_a_fetch"}) == ""
    table = capacity.measured(CAPACITY)
    assert "| Commits | 0.5 commits | 22 commits/s | 8 commits/s |" in table
    assert "| PostgreSQL's processor | 0.3 cores | 1.6 cores |" in table
    assert "bottleneck" not in table
    assert capacity.measured({}) == ""


def test_the_page_is_made_of_the_figures_that_are_kept(tmp_path: Path) -> None:
    """A line that was changed, or a figure that was measured anew, is on the page."""
    copy = tmp_path / PAGE.name
    copy.write_text(PAGE.read_text())
    writing.write(copy, KEPT)
    assert copy.read_text() == PAGE.read_text()


def test_each_figure_of_a_line_is_one_that_its_benchmark_has() -> None:
    """A name that no benchmark writes would leave its line out, and nobody would see that."""
    kept = writing.read(KEPT).figures
    named = [
        (table.benchmark, figure)
        for table in TABLES.values()
        if table.benchmark in kept
        for line in table.lines
        for figure in (line.figure, *(name for peer in line.peers for name in (peer.figure, peer.ratio) if name))
    ]
    assert [figure for benchmark, figure in named if figure not in kept[benchmark]] == []


def test_numbers_have_three_digits_or_all_of_their_whole_ones() -> None:
    assert [written(value) for value in (0, 0.20812, 9.996, 99.96, 123.4, 4103.2)] == [
        "0", "0.208", "10", "100", "123", "4,103",
    ]  # fmt: skip
