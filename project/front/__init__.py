"""In front of Django: limits on requests, for the whole application, before a request uses a thread or a connection.

server.py    limits on the bytes and the time of a head, and on idle connections; only for uvicorn (`--http`)
clients.py   the address of the client
heads.py     refusals of bad heads; /livez
requests.py  limits on bodies, and on the number of requests at the same time
"""
