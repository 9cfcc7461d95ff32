"""HTTP/1.1, byte by byte: writing requests and reading answers, on connections. It knows nothing about fetches."""
