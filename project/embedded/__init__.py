"""PostgreSQL and Valkey from pip wheels, on Unix sockets below one folder: the *home* of a checkout.

The first process that enters `servers()` is the *owner* of the home: it starts the servers, adopts servers that a
killed owner left running, and stops all servers at the end. Every other process is a *guest*: it waits until the
servers answer, and never stops them. This package creates no user, and changes the owner or the permissions only of
folders that it has made. The permissions of the sockets' folders are the authentication: only the server's own user
and root can connect.
"""

from project.embedded.ownership import make_home
from project.embedded.places import EmbeddedError
from project.embedded.postgres import DATABASE_NAME, DATABASE_USER, postgres_socket_dir
from project.embedded.servers import EmbeddedServers, discard, home, servers
from project.embedded.valkey import valkey_socket

__all__ = [
    "DATABASE_NAME",
    "DATABASE_USER",
    "EmbeddedError",
    "EmbeddedServers",
    "discard",
    "home",
    "make_home",
    "postgres_socket_dir",
    "servers",
    "valkey_socket",
]
