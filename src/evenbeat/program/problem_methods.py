"""The methods of an App that are about what is wrong: problems, why, contacts, downtimes."""

from collections.abc import Mapping
from typing import Any

from evenbeat.load.contacts import contact_from_table
from evenbeat.program.python_values import Length, Time, end_of, file_keys, instant_of
from evenbeat.program.task_methods import ProgramMethods, filter_of
from evenbeat.program.views import DowntimeInfo, ProblemInfo
from evenbeat.report.contacts import ContactInfo
from evenbeat.report.why_facts import Answer
from evenbeat.store.contract import Filter, ProblemFilter
from evenbeat.wire.replies import ProblemsChanged


class ProblemMethods(ProgramMethods):
    """Problems, and who is told of them."""

    def problems(
        self,
        *names: str,
        owner: str | None = None,
        is_open: bool | None = True,
        acknowledged: bool | None = None,
        most: int = 1_000,
    ) -> list[ProblemInfo]:
        """Problems of tasks, newest first: open ones, closed ones (`is_open=False`) or both (None)."""
        with self._client() as client:
            tasks = Filter(names=names, owner=owner)
            only = ProblemFilter(tasks, is_open=is_open, most=most, acknowledged=acknowledged)
            return [ProblemInfo.of(found) for found in client.problems(only)]

    def why(self, name: str, at: Time | None = None) -> Answer:
        """Why does a task run, or not, and who was notified of its problems; now, or around a time.

        Asks the node: on the loop that it runs on, await `app.aio.why`.
        """
        with self._client() as client:
            return client.why(name, at if at is None or isinstance(at, str) else at.isoformat())

    def acknowledge(
        self,
        *names: str,
        owner: str | None = None,
        comment: str = "",
        until: Time | None = None,
        sticky: bool = False,
        withdraw: bool = False,
    ) -> ProblemsChanged:
        """Acknowledge the open problems of tasks, or take that back (`withdraw`); Conflict if there is none.

        The acknowledgement ends at `until`.
        """
        end = instant_of("until", until)
        with self._client() as client:
            only = filter_of(names, owner)
            return client.acknowledge(only, comment=comment, until=end, sticky=sticky, withdraw=withdraw)

    def comment(self, name: str, text: str) -> ProblemsChanged:
        """Comment on the open problem of a task; Conflict if there is none."""
        with self._client() as client:
            return client.comment(Filter(names=(name,)), text)

    def contacts(self) -> list[ContactInfo]:
        """All contacts, by name: of this program, of files, and those that were set."""
        with self._client() as client:
            return client.contacts()

    def set_contact(self, name: str, /, **keys: Any) -> None:
        """Create a contact that stays when this program ends, or replace its definition."""
        contact = contact_from_table(name, file_keys(keys, self.name_of))
        self._do(lambda client: client.set_contact(name, contact))

    def remove_contact(self, name: str) -> None:
        """Remove a contact; Conflict while a task or [node] names it."""
        self._do(lambda client: client.remove_contact(name))

    def downtimes(self, *, is_all: bool = False) -> list[DowntimeInfo]:
        """Downtimes, the earliest first; with `is_all`, also those that are over, for 30 days."""
        with self._client() as client:
            return [DowntimeInfo.of(known) for known in client.downtimes(is_all=is_all)]

    def downtime(
        self,
        *names: str,
        owner: str | None = None,
        labels: Mapping[str, str] | None = None,
        start: Time | None = None,
        until: Time | None = None,
        length: Length | None = None,
        period: str | None = None,
        dependents: bool = True,
        comment: str = "",
    ) -> DowntimeInfo:
        """Set a downtime for tasks: from now on, or from `start`; `until` a time, or for a `length`."""
        begin = instant_of("start", start)
        with self._client() as client:
            made = client.add_downtime(
                names,
                owner=owner,
                labels=labels,
                start=begin,
                end=end_of(client.now() if begin is None else begin, until, length),
                period=period,
                dependents=dependents,
                comment=comment,
            )
        return self._downtime(made.id)

    def end_downtime(self, id: str) -> DowntimeInfo:  # noqa: A002 - as `downtime` returns it
        """End a downtime that a person or program has set."""
        with self._client() as client:
            ended = client.end_downtime(id)
        return self._downtime(ended.id)

    def _downtime(self, id_: str) -> DowntimeInfo:
        return next(found for found in self.downtimes(is_all=True) if found.id == id_)
