"""HTTP/1.1, byte by byte: requests that are written and answers that are read, on connections. It has no fetches."""
