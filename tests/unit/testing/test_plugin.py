"""The pytest plugin in a project that does not use Weir."""

from pathlib import Path

from tests.run_python import run_python

TEST = """
import sys

def test_nothing_is_imported(request):
    assert request.config.pluginmanager.has_plugin("weir")
    assert not {"django", "celery", "redis"} & set(sys.modules)
    assert {name for name in sys.modules if name.startswith("weir.")} == {
        "weir.apps_lists", "weir.testing", "weir.testing.plugin"
    }
"""


def test_it_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    plugins = ("no:cacheprovider", "no:django", "no:celery", "no:xdist", "no:schemathesis", "no:hypothesispytest")
    without = [word for name in plugins for word in ("-p", name)]
    said = run_python("-m", "pytest", *without, "-q", ".", folder=tmp_path, DJANGO_SETTINGS_MODULE="")
    assert "1 passed" in said
