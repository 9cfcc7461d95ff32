"""One attempt at a fetch: when it is written, to which address, what it may hold, and whose fault an end is."""
