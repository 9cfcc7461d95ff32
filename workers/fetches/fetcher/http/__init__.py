"""One attempt at a fetch: when its request is written, to which address, what its answer may hold, and who failed."""
