"""The project that is being worked on: its topology, the database that gets it, and what an operator may do there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from towpath.cli.dev.happenings import Counted, Refused, TopologyApplied
from towpath.errors import TowpathError
from towpath.operating import Operator, Pace, Selection, Warrant
from towpath.ports import Transport
from towpath.resolve import resolve, with_all_on_database
from towpath.topology import read_topology
from towpath.transports import TopologyStore

_ENVIRONMENT: Final = "dev"
_RUNNING_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A topology's file and the open database that it is applied to; ``actor`` is who acts, for the audit trail."""

    topology: Path
    transport: Transport
    actor: str

    def apply(self) -> tuple[str, TopologyApplied] | Refused:
        """Have the database hold the topology, every topic on it; answers its name, and what that changed. Otherwise
        all that is wrong, and the database is as it was.
        """
        try:
            read = read_topology(self.topology)
            manifest = resolve(with_all_on_database(read.topology), _ENVIRONMENT)
            applied = cast(TopologyStore, self.transport).apply(manifest)
        except TowpathError as error:
            return Refused(problem=str(error))
        warnings = tuple(f"{self.topology.name}, {warning}" for warning in read.warnings())
        return manifest.name, TopologyApplied(applied=applied, warnings=warnings)

    def look(self) -> Counted:
        """How every subscription stands now. Raises one of Towpath's errors when the database does not answer."""
        operator = self._operator
        running = operator.deliveries(Selection(state="leased"), _RUNNING_SHOWN)
        return Counted(stats=tuple(operator.stats()), running=tuple(running))

    def pause_or_resume(self) -> str:
        """Pause every subscription, or resume all where none is active; answers what was done."""
        operator = self._operator
        rows = [row for row in operator.stats() if row.status != "disabled"]
        active = [row.subscription for row in rows if row.status == "active"]
        if active:
            for name in active:
                operator.pause(name, self._warrant("paused in towpath dev"))
            return f"paused {', '.join(active)}"
        warrant = self._warrant("resumed in towpath dev")
        resumed = [row.subscription for row in rows if operator.resume(row.subscription, warrant)]
        return f"resumed {', '.join(resumed)}" if resumed else "nothing to resume: the topology itself says paused"

    def replay(self) -> str:
        """Have every dead letter come again; answers what was done."""
        count = self._operator.replay(Selection(state="dead"), self._warrant("replayed in towpath dev"), Pace())
        return "replayed 1 dead letter" if count == 1 else f"replayed {count:,} dead letters"

    @property
    def _operator(self) -> Operator:
        return self.transport.operator()

    def _warrant(self, reason: str) -> Warrant:
        return Warrant(actor=self.actor, reason=reason)
