"""A PostgreSQL and its synchronous standby, which change places, as a manager of fail-overs makes them do."""

import shutil
from dataclasses import dataclass

from tests.own_servers import Server, beside
from tests.waiting import wait_for


@dataclass(kw_only=True)
class Pair:
    """A primary whose commits wait for the standby."""

    primary: Server
    standby: Server

    @classmethod
    def of(cls, primary: Server, **of_standby: object) -> "Pair":
        """Give a server that runs a standby, whose attributes may differ."""
        standby = Server(folder=beside(primary, "standby"), binaries=primary.binaries, options=dict(primary.options))
        for name, value in of_standby.items():
            setattr(standby, name, value)
        made = cls(primary=primary, standby=standby)
        made.rebuild()
        return made

    def promote(self) -> None:
        """Make the standby the primary, which waits for no standby until there is one: as such a manager does."""
        self.standby.set("synchronous_standby_names", "")
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def rebuild(self) -> None:
        """Make the other server a standby, from a copy of the primary, and let commits wait for it."""
        self.standby.kill()
        shutil.rmtree(self.standby.folder, ignore_errors=True)
        self.primary.copied(self.standby.folder, as_standby=True)
        self.standby.start()
        wait_for(self._streams, 30, "the standby to follow")
        self.primary.set("synchronous_standby_names", "*")

    def _streams(self) -> bool:
        return bool(self.primary.query("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"))
