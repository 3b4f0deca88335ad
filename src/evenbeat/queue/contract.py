"""What a node needs of a queue: deliver runs to workers, report how they end. Every queue passes `testing.queue`.

A queue decides nothing: which run starts when, and for how long, is decided before it is dispatched. It lives on the
node's asyncio loop, and none of its methods waits for a worker except `stop`. The maker of a queue gives it
two callbacks, which are called on that loop:

- `on_results` gets exactly one result for every run that was dispatched, many at a time: as a list, or as columns where
  the results say nothing but when the runs were made;
- `on_started` gets token and start time of every run that has started and did not end at once, at most once per run,
  and before its result.

A run is known by its token, which a node never uses twice. After a node's restart or failover a queue may get a result
that a former owner asked for: how it is adopted or reported late is not part of this contract.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from evenbeat.wire.worker_frames import OutputFrame, RunSpec

OUTPUT_ANSWER_TIMEOUT: Final = 1.0
"""Seconds that a worker has to say what a run has written."""


class Dispatcher(Protocol):
    """The part of a queue that delivers: all that the loop of a node needs."""

    @property
    def early_delivery(self) -> int:
        """Microseconds by which workers accept a run before it is due; they start it when it is due, not earlier."""

    @property
    def is_busy(self) -> bool:
        """Do the workers have more runs than they can start for a while? Then more runs would only wait there."""

    def dispatch(
        self,
        runs: Sequence[RunSpec],
        functions: Sequence[str | None] | None = None,
        tasks: Sequence[int] = (),
        pools: Sequence[str | None] | None = None,
    ) -> None:
        """Deliver these runs. The other sequences say more of each, in the same order.

        `functions`: reference of the function to call, None for a command; omitted if all are commands.
        `tasks`: numbers of their tasks. `pools`: worker pool, None for the default one; omitted if all are in that.
        A run whose timebox ends is stopped by its worker. One that is past its latest start, or too soon after the
        last start, is `dropped`; one that cannot be started is `broken`; one whose worker has died is `lost`.
        """

    def cancel(self, tokens: Sequence[int] = ()) -> None:
        """End these runs, or all if none is named. Each gets its result: `cancelled`, unless it had ended before."""

    def confirm_stored(self, tokens: Sequence[int]) -> None:
        """The results of these runs are committed: workers may forget them. Unknown tokens are ignored."""


class Queue(Dispatcher, Protocol):
    """A whole queue, as a node starts, shows and stops it."""

    @property
    def workers(self) -> list[tuple[int, str]]:
        """Process id and description of every worker that is up."""

    @property
    def restarts(self) -> int:
        """Worker processes that ended before they were told to."""

    @property
    def restarts_by_worker(self) -> Mapping[str, int]:
        """The same of each worker that is in sight, by an id."""

    @property
    def problem(self) -> str:
        """Why runs cannot be delivered or started now, for people; "" if they can."""

    async def read_output(self, token: int, position: int) -> OutputFrame | None:
        """What a run that is under way has written from a position on, at most OUTPUT_LIMIT bytes.

        None if no worker has the run, or if its worker does not answer within OUTPUT_ANSWER_TIMEOUT. A run is not
        slowed by it: a worker keeps the beginning and the end of an output anyway. The answer may be one to an earlier
        question about the same run: then `asked` is not `position`.
        """

    def set_clock(self, offset: int, by: int = 0) -> None:
        """The node's clock is `offset` microseconds ahead of the boot-time clock.

        If it was set, it was set by `by`: runs that have not started keep their instant.
        """

    async def stop(self, grace: float) -> None:
        """Wait at most `grace` seconds for open runs, then let go: no callback is called after this returns.

        Dispatch nothing afterwards; it may be called again. A queue whose workers end with the node ends the remaining
        runs and reports them as `cancelled`. A queue whose workers live elsewhere leaves them to the next owner.
        """
