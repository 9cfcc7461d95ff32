"""The report, as text and as data."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from project.doctor.findings import Finding, Level

_LEVEL_WIDTH = max(map(len, Level))
_NAME_WIDTH = 18
INDENT = 2


def line(finding: Finding) -> str:
    """Return the finding as one line with three columns: level, name and sentence."""
    return f"{'':{INDENT}}{finding.level:{_LEVEL_WIDTH}}  {finding.name:{_NAME_WIDTH}}  {finding.sentence}"


def total(found: Iterable[Finding]) -> str:
    """Return how many findings there are of each level, as a sentence."""
    counts = Counter(finding.level for finding in found)
    return f"{', '.join(f'{counts[level]} {level}' for level in Level)}."


def as_data(found: Sequence[Finding], seconds: float) -> Mapping[str, object]:
    """Return the report as data that `json.dumps` can write."""
    counts = Counter(finding.level for finding in found)
    return {
        "findings": [finding._asdict() for finding in found],
        "counts": {level: counts[level] for level in Level},
        "seconds": round(seconds, 3),
    }


def is_well(found: Iterable[Finding]) -> bool:
    """Return whether nothing is wrong."""
    return all(finding.level != Level.WRONG for finding in found)
