"""What one performance of the demo shows."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be shown, and where its servers' folder is."""

    home: Path
    duration_s: float  # from the first request on
    sites: int
    fetchers: int

    @property
    def log(self) -> Path:
        """Where the processes write."""
        return self.home / "processes.log"
