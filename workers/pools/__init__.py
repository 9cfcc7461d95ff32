"""What holds in the pool of a worker: which thread runs what, and which sessions stay."""
