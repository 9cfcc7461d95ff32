"""All themes, in the order of the report: a theme that others need comes first."""

from project.doctor.findings import Theme
from project.doctor.themes import fetching, host, mail, packages, postgresql, processes, queues, redis_server, variables


def themes() -> list[Theme]:
    """Return the themes, with new checks."""
    return [
        Theme("Installation", packages.checks()),
        Theme("Settings", variables.checks()),
        Theme("PostgreSQL", postgresql.checks()),
        Theme("Redis and the broker", redis_server.checks()),
        Theme("Processes", processes.checks()),
        Theme("Queues", queues.checks()),
        Theme("Fetching", fetching.checks()),
        Theme("E-mail", mail.checks()),
        Theme("This host", host.checks()),
    ]
