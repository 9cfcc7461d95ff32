"""What `up` does when code changes: here with processes that only note what is asked of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from project.processes import changes, procfile, reloader


class Stop(KeyboardInterrupt):
    """Ends a test's reloader."""


@dataclass
class Scene:
    """A checkout, and what the reloader did there; at each look, the next of `steps` happens."""

    checkout: Path
    steps: list[Any]
    refusal: str = ""
    refusal_of_code: str = ""
    said: list[str] = field(default_factory=list)
    starts: int = 0
    stopped: int = 0  # processes whose block was left
    finishes: int = 0
    looks_after_servers: int = 0
    ends: int = 0
    goes_on: bool = False  # a task of processes that were asked to end

    def run(self) -> None:
        """Run a reloader until the steps are over."""
        with pytest.raises(Stop):
            reloader.Reloader(
                start=self.start,
                wait_until_ready=lambda _running, _check: None,
                announce=lambda: None,
                say=self.said.append,
                refusal_of_env=lambda: self.refusal,
                refusal_of_code=lambda: self.refusal_of_code,
                keep_servers=self.keep_servers,
                _code=changes.Code(self.checkout),
            ).run()

    @contextmanager
    def start(self) -> Iterator[Any]:
        """Start processes."""
        self.starts += 1
        try:
            yield self
        finally:
            self.stopped += 1

    def check(self) -> None:
        """Called at each look while processes run."""
        if not self.steps:
            raise Stop
        self.steps.pop(0)()

    def keep_servers(self) -> None:
        """Called at each look, whether processes run or not."""
        self.looks_after_servers += 1

    def finish(self) -> None:
        """Called when they are to end, and their tasks before them."""
        self.finishes += 1

    def end(self) -> None:
        """Called when they are to end at once."""
        self.ends += 1

    def end_within(self, _seconds: float) -> bool:
        """Tell whether those that are to end have ended."""
        return not self.goes_on


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A checkout with an app."""
    monkeypatch.setattr(changes, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(changes, "SETTLED_S", 0.001)
    monkeypatch.setattr(procfile, "POLL_S", 0.001)
    monkeypatch.setattr(reloader, "CHECKOUT", tmp_path)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/__init__.py").touch()
    (tmp_path / ".env").touch()
    return Scene(tmp_path, steps=[])


def test_a_mistake_in_env_is_told_before_anything_ends(scene: Scene) -> None:
    """The processes go on; the mistake that is put right starts new ones."""

    def break_it() -> None:
        scene.refusal = "WEIR_LOOKAHEAD must be a time."
        (scene.checkout / ".env").write_text("WEIR_LOOKAHEAD=soon\n")

    def put_it_right() -> None:
        assert scene.said == ["WEIR_LOOKAHEAD must be a time.\nThe processes go on with the code that they have."]
        assert scene.starts == 1
        scene.refusal = ""
        (scene.checkout / ".env").write_text("WEIR_LOOKAHEAD=12s\n")

    scene.steps = [break_it, put_it_right, lambda: None]
    scene.run()
    assert scene.starts == 2
    assert scene.said[1].startswith(".env changed: all processes end and start again.")


def test_code_that_cannot_be_loaded_ends_nothing(scene: Scene) -> None:
    """It is told once; the processes go on, until what can be loaded starts new ones."""

    def break_it() -> None:
        scene.refusal_of_code = "ImportError: no such name"
        (scene.checkout / "shop/tasks.py").write_text("from shop import nothing\n")

    def put_it_right() -> None:
        assert scene.said == ["ImportError: no such name\nThe processes go on with the code that they have."]
        assert scene.starts == 1
        scene.refusal_of_code = ""
        (scene.checkout / "shop/tasks.py").write_text("")

    scene.steps = [break_it, lambda: None, put_it_right, lambda: None]
    scene.run()
    assert scene.starts == 2
    assert scene.said[1].startswith("shop/tasks.py changed")
    assert scene.looks_after_servers >= 4


@pytest.mark.parametrize("goes_on", [False, True])
def test_new_processes_start_while_those_of_the_old_code_end(goes_on: bool, scene: Scene) -> None:
    """A task that goes on holds up nothing, and is told; at the end nothing is left of either."""
    scene.goes_on = goes_on

    def change() -> None:
        (scene.checkout / "shop/tasks.py").write_text("y = 12\n")

    def look() -> None:
        assert (scene.starts, scene.finishes, scene.ends, scene.stopped) == (2, 1, 0, 0)
        assert ("A task goes on with the old code" in scene.said[-1]) is goes_on

    scene.steps = [change, look]
    scene.run()
    assert (scene.starts, scene.ends, scene.stopped) == (2, int(goes_on), 2)
