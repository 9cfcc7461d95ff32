"""In front of Django: what comes in is bounded for the whole application, before a thread or a connection is spent.

server.py    the head: bytes and time; how many connections may be idle. For uvicorn alone: `--http`
clients.py   who the client is
heads.py     what no head may have; /livez
requests.py  the body, and how many requests there are at the same time
"""
