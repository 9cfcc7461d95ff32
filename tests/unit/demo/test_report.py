from typing import Any

from demo import report
from demo.figures import Figures
from tests.cases import for_each


def verdict(**given: Any) -> str:
    """Return the verdict on a run in which all went well but for what is given."""
    good = dict.fromkeys(Figures.__dataclass_fields__, 0) | {"shortest_gap_ratio": 1.0, "used_share": 0.96}
    return report.verdict(Figures(**(good | given)), 100).plain


ON_PURPOSE = "15 fetches failed on purpose: one page in 25 answers 500, or closes the connection, each time"


@for_each(
    ("failed", "on_purpose", "told"),
    [(0, 0, []), (15, 15, [f"{ON_PURPOSE}."]), (17, 15, [f"{ON_PURPOSE}; 2 others failed, too."])],
)
def test_the_verdict_explains_why_fetches_failed(failed: int, on_purpose: int, told: list[str]) -> None:
    """Pages that the demo's sites break on purpose are told from others."""
    lines = verdict(failed=failed, failed_on_purpose=on_purpose).splitlines()
    assert [line for line in lines if "failed" in line] == told
