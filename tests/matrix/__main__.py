"""`make matrix`: unit and integration tests, with each version of Python, Django, PostgreSQL and Redis that there is.

1. What the machine has of each version, or can install, is found (machine.py).
2. Runs are put together, so that each two versions of different kinds meet (covering.py).
3. Each run gets an environment (environments.py) and servers (stand_ins.py), and its tests are run (pytest_runs.py).
4. What came of it is written into docs/reference/versions.md (page.py).
"""

import argparse
import sys
from collections.abc import Sequence

from tests.matrix import page
from tests.matrix.covering import covering_runs
from tests.matrix.machine import Source, source
from tests.matrix.packages import Lacking
from tests.matrix.places import PAGE
from tests.matrix.pytest_runs import TESTS, Result, carry_out, last_words
from tests.matrix.substitutes import nearest
from tests.matrix.versions import ALL, Versions, parsed


def main(arguments: Sequence[str]) -> int:
    """Do as the command line says; returns 0 if every run was made and no test failed."""
    options = _parser().parse_args(arguments)
    sources = {kind: [source(kind, value) for value in values] for kind, values in ALL.items()}
    planned = covering_runs({kind: [one.value for one in found if one.can_be_had] for kind, found in sources.items()})
    lacking = [one for found in sources.values() for one in found if not one.can_be_had]
    for one in lacking:
        print(f"This machine lacks {one.label}: {one.remedy}.", flush=True)
    if options.list:
        _show(sources, planned)
        return 0
    wanted = [nearest(run) for run in options.only] if options.or_nearest else options.only
    are_good = True
    for run in wanted or planned:
        result = _result(run, options.tests)
        are_good &= bool(result and result.is_good)
        if result and options.tests == list(TESTS):
            page.write(PAGE, result, planned, lacking)
    return 0 if are_good else 1


def _result(run: Versions, tests: Sequence[str]) -> Result | None:
    """Carry out a run, and print what came of it; None if a version could not be had."""
    print(f"{run.name} ...", flush=True)
    try:
        result = carry_out(run, tests)
    except Lacking as why:
        print(f"{run.name}: not run. {why}", flush=True)
        return None
    print(result, flush=True)
    if not result.is_good:
        print(f"{last_words(result)}\nMore in {result.log}.", flush=True)
    return result


def _show(sources: dict[str, list[Source]], planned: Sequence[Versions]) -> None:
    for one in (one for found in sources.values() for one in found):
        print(f"{one.label:16} {one}")
    print(f"\n{len(planned)} runs:")
    for run in planned:
        print(run.name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make matrix", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="show where each version comes from, and the runs")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        type=_run,
        metavar="RUN",
        help="make this run, such as py3.13-dj6.0-pg15-redis7; may be given again",
    )
    parser.add_argument(
        "--or-nearest", action="store_true", help="take another version where one cannot be had, and say so"
    )
    parser.add_argument(
        "--tests",
        nargs="+",
        default=list(TESTS),
        metavar="PATH",
        help="other tests than all unit and integration tests; the page is not written then",
    )
    return parser


def _run(name: str) -> Versions:
    try:
        return parsed(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
