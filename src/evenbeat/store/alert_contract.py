"""The part of the contract of a store that alerts need: what each channel knows of a problem, decisions, messages."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Protocol

from evenbeat.store.alert_records import (
    ALL_DECISIONS,
    ALL_MESSAGES,
    AlertBatch,
    AlertDecisionFilter,
    AlertProblem,
    AlertRecord,
    AlertRefusals,
    MessageFilter,
    MessageRecord,
    NumberedDecision,
    ProblemKey,
)


class AlertStore(Protocol):
    """Part of every `Store`."""

    def problem_ids(self, keys: Sequence[ProblemKey]) -> list[int | None]:
        """The ids of problems, open or closed, in the order of the keys; None for one that does not exist."""

    def open_alert_problems(self) -> Iterator[tuple[AlertProblem, list[AlertRecord]]]:
        """The open problems, and the closed ones with an alert that is not over, by id, each with all its alerts.

        One at a time: there may be 100,000.
        """

    def alert_problems(self, ids: Sequence[int]) -> list[tuple[AlertProblem, list[AlertRecord]]]:
        """Problems with all their alerts, open or closed, by id; those that do not exist are left out."""

    def record_alerts(self, batch: AlertBatch) -> Future[AlertRefusals]:
        """Keep what was decided about alerts. What was recorded before, here or by `record`, is kept before.

        The future is done when it is durable; if it fails with StoreError, nothing was kept. Its result says what was
        not kept, as another node has recorded otherwise meanwhile: see AlertRefusals.
        """

    def reserve_messages(self, count: int) -> int:
        """The first of `count` ids for new messages, one after the other, that no message has or ever had."""

    def alerts(self, problem: int) -> list[AlertRecord]:
        """What is known of a problem in each channel, by the key of the channel."""

    def alert_decisions(self, only: AlertDecisionFilter = ALL_DECISIONS) -> list[NumberedDecision]:
        """The decisions that the filter selects, newest first: by time, and of the same time by number."""

    def messages(self, only: MessageFilter = ALL_MESSAGES) -> list[MessageRecord]:
        """The messages that the filter selects, newest first, without their documents."""

    def unfinished_messages(self) -> list[MessageRecord]:
        """The messages that have not ended, oldest first, without their documents."""

    def message_document(self, id_: int) -> bytes | None:
        """The document of a message as far as it is recorded; None if it was dropped, or there is no such message."""
