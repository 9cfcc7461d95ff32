"""The options of one run of the demo."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run shows, and the folder of its servers."""

    home: Path
    duration_s: float  # from the first request on
    sites: int
    fetchers: int

    @property
    def log(self) -> Path:
        """The file to which Weir's processes write."""
        return self.home / "processes.log"
