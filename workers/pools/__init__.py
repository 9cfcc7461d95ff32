"""Rules of a worker's pool: which thread runs which task, and which sessions stay open."""
