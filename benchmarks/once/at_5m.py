"""The benchmark of size (size.py) with 5,000,000 e-mails."""

from functools import partial

from benchmarks.once import size

measure = partial(size.measure, emails=5_000_000)
