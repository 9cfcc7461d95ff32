"""What runs the tests of apps that use Weir: `manage.py test`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import weir
from project.checkout import LOCAL
from weir import testing


class Runner(testing.Runner):
    """Django's, in whose parallel copies of the database Weir is at work."""

    def build_suite(self, test_labels: Sequence[str] | None = None, **options: Any) -> Any:  # noqa: ANN401  Django's signature
        """Without a label, look for tests wherever there may be some."""
        return super().build_suite(test_labels or [*_packages(), *_modules(self.pattern or "test*.py")], **options)


def _packages() -> list[str]:
    """Return the packages in the current folder, and in `local`, but for Weir's rooms, which are `weir.ROOM` alone."""
    rooms = {path.name for path in Path(weir.__file__).parent.iterdir() if path.is_symlink()}
    found = [*Path().glob("*/__init__.py"), *Path(LOCAL.name).glob("*/__init__.py")]
    return sorted({path.parent.name for path in found} - rooms)


def _modules(pattern: str) -> list[str]:
    """Return the modules with tests in the current folder."""
    return sorted(path.stem for path in Path().glob(pattern))
