"""Rules of a worker's pool: which thread runs what, and which sessions stay."""
