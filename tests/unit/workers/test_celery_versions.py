"""What differs between the versions of Celery that Weir takes."""

import ast
from pathlib import Path

import weir.celery

ROOMS = Path(weir.__file__).parent


def test_no_class_of_celerys_is_subscripted_when_a_module_is_imported() -> None:
    """Celery's classes take type parameters since 5.6 only, and annotations are evaluated unless they are texts."""
    found = [
        f"{path}:{node.lineno}"
        for room in ("ratelimit", "notifications", "workers", "postgres", "ops", "api")
        for path in sorted((ROOMS / room).resolve().rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Task"
    ]
    assert not [place for place in found if not _is_local(place)]


class _Earlier(dict[str, object]):
    """A configuration of Celery up to 5.6: what was read with the namespace goes before what is set without it."""

    prefix = "CELERY_"

    def __getitem__(self, name: str) -> object:
        return self.get(f"{self.prefix}{name}".upper()) or super().__getitem__(name)


def test_what_integrate_sets_holds() -> None:
    """Whatever the project's settings say, which are read with a namespace as a rule, or without one."""
    for conf in (_Earlier(CELERY_BEAT_SCHEDULER="django"), _Earlier(beat_scheduler="django"), _Earlier()):
        weir.celery._set(conf, "beat_scheduler", weir.celery.SCHEDULER)
        assert conf["beat_scheduler"] is weir.celery.SCHEDULER


def _is_local(place: str) -> bool:
    """Tell whether that line is an annotation of a local variable, which Python does not evaluate."""
    path, line = place.rsplit(":", 1)
    functions = [node for node in ast.walk(ast.parse(Path(path).read_text())) if isinstance(node, ast.FunctionDef)]
    return any(
        isinstance(statement, ast.AnnAssign) and statement.lineno == int(line)
        for function in functions
        for statement in ast.walk(function)
    )
