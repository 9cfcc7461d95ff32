"""`python -m benchmarks [NAME...]`: measure Weir against named peers, on servers of its own in `.weir/bench`.

The embedded servers run with durable settings, as an installation would. Every ratio is taken within one run. When all
have run, the tables of docs/measured.md are written anew; `python -m benchmarks.page` does so at any time.
"""

import argparse
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from importlib import import_module

from benchmarks import growth
from benchmarks.figures import FOLDER, Figure, publish

# The modules whose `measure` returns a benchmark's figures, in the order in which they run.
MODULES = {
    "reservations": "benchmarks.reservations",
    "far_database": "benchmarks.fetches.far_database",
    "dispatch": "benchmarks.fetches.dispatch",
    "end_to_end": "benchmarks.fetches.end_to_end",
    "hostile": "benchmarks.fetches.hostile",
    "window": "benchmarks.fetches.window",
    "large_bodies": "benchmarks.fetches.large_bodies",
    "scale": "benchmarks.scale",
    "idle": "benchmarks.idle",
    "fairness": "benchmarks.fetches.fairness",
    "estimate": "benchmarks.reservations.estimate",
    "forecast": "benchmarks.fetches.forecast",
    "unread": "benchmarks.unread",
    "bell": "benchmarks.bell",
    "once": "benchmarks.once",
    "api": "benchmarks.api",
    "enqueue": "benchmarks.enqueue",
    "watches": "benchmarks.watches",
    "shares": "benchmarks.shares",
    "capacity": "benchmarks.capacity",
    "picture": "benchmarks.picture",
}
# Benchmarks that run only if they are named: unread_10m takes an hour, and 70 GB of disk; growth takes three quarters
# of an hour, and 30 GB; pages takes 8 GB; tabs takes ten minutes.
LARGE = {
    "pages": "benchmarks.pages",
    "tabs": "benchmarks.tabs",
    "unread_100k": "benchmarks.unread.at_100k",
    "unread_1m": "benchmarks.unread.at_1m",
    "unread_10m": "benchmarks.unread.at_10m",
    **{f"growth_{of}": f"benchmarks.growth.{of}" for of in growth.OF},
    "growth_table": "benchmarks.growth",  # of what was measured, in this run or before it
    "growth": "benchmarks.growth",  # all of these
}


def main() -> None:
    """Run the benchmarks that the command line names, or all."""
    all_ = MODULES | LARGE
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(all_)}; none = all but {', '.join(LARGE)}"
    )
    asked = parser.parse_args().names
    names = list(_with_growth(asked or MODULES))
    if unknown := [name for name in names if name not in all_]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(all_)}")

    # Before Django reads its settings, so that they name these servers and no others.
    os.environ |= {
        "WEIR_HOME": str(FOLDER),
        "WEIR_FETCH_ALLOW_NETS": "127.0.0.0/8",
        "WEIR_OBEY_ROBOTS": "false",
        "WEIR_LOG_LEVEL": "WARNING",
    }
    os.environ |= dict.fromkeys(("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL"), "")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django  # noqa: PLC0415
    from django.core.management import call_command  # noqa: PLC0415

    from benchmarks.page import writing  # noqa: PLC0415
    from project import embedded  # noqa: PLC0415

    django.setup()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with embedded.servers(FOLDER):
        call_command("migrate", verbosity=0)
        call_command("sync_schedule", stdout=sys.stderr)
        failed = [name for name in names if not _is_measured(name, all_[name])]
    if not asked:
        writing.renew()
    if failed:
        sys.exit(f"These ended with an error: {', '.join(failed)}.")


def _with_growth(names: Iterable[str]) -> Iterable[str]:
    """Yield the names; `growth` is replaced by the names that it stands for."""
    for name in names:
        yield from (f"growth_{of}" for of in (*growth.OF, "table")) if name == "growth" else (name,)


def _is_measured(name: str, module: str) -> bool:
    """Run a benchmark; if it ends with an error, print that, so that the others are run."""
    print(f"# {name}", flush=True)
    try:
        publish(name, _noted(name, import_module(module).measure(FOLDER)), FOLDER)
    except Exception:  # noqa: BLE001  main ends with an error for it
        traceback.print_exc()
        return False
    return True


def _noted(name: str, figures: Iterable[Figure]) -> Iterator[Figure]:
    """Pass the figures on, and record where they come from when the first one comes."""
    from benchmarks import provenance  # noqa: PLC0415  after Django is set up

    for number, figure in enumerate(figures):
        if not number:
            provenance.note(name, FOLDER)
        yield figure


if __name__ == "__main__":
    main()
