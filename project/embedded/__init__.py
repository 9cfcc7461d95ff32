"""PostgreSQL and Valkey from pip wheels, on Unix sockets below one folder: the *home* of a checkout.

The first process that enters `servers()` owns the home: it starts what is missing, takes over what a killed owner left
running, and stops both at the end. Every other process waits until the servers answer and leaves them alone.
No folder that was not made here ever has its owner or permissions changed, and no user is created.
Authentication is by the folder: only the server's own user and root can reach the sockets.
"""

from project.embedded.places import EmbeddedError
from project.embedded.postgres import DATABASE_NAME, DATABASE_USER, postgres_socket_dir
from project.embedded.servers import Servers, discard, home, not_running_hint, servers
from project.embedded.valkey import valkey_socket

__all__ = [
    "DATABASE_NAME",
    "DATABASE_USER",
    "EmbeddedError",
    "Servers",
    "discard",
    "home",
    "not_running_hint",
    "postgres_socket_dir",
    "servers",
    "valkey_socket",
]
