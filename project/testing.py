"""The test runner of `manage.py test`, for the tests of apps that use Weir."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import weir
from project.checkout import LOCAL
from weir import testing


class Runner(testing.Runner):
    """Django's runner; Weir also works in the copies of the database that parallel tests use."""

    def build_suite(self, test_labels: Sequence[str] | None = None, **options: Any) -> Any:  # noqa: ANN401  Django's signature
        """Without a label, look for tests in all packages and modules that may have some."""
        return super().build_suite(test_labels or [*_packages(), *_modules(self.pattern or "test*.py")], **options)


def _packages() -> list[str]:
    """Return the packages in the current folder and in `local`, except Weir's rooms: their name is `weir.ROOM`."""
    rooms = {path.name for path in Path(weir.__file__).parent.iterdir() if path.is_symlink()}
    found = [*Path().glob("*/__init__.py"), *Path(LOCAL.name).glob("*/__init__.py")]
    return sorted({path.parent.name for path in found} - rooms)


def _modules(pattern: str) -> list[str]:
    """Return the modules with tests in the current folder."""
    return sorted(path.stem for path in Path().glob(pattern))
