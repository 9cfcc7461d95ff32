"""The operators' pages of sites, fetches and robots.txt files. Nothing is edited in forms."""

from weir.workers.fetches.admin import fetches, sites  # noqa: F401  importing registers them
