"""Part of the store contract: messages, from their start over their attempts to their end."""

from msgspec.structs import replace

from evenbeat.model import DAY, Instant
from evenbeat.store.alert_records import (
    DOCUMENT_KEPT,
    NONE_REFUSED,
    AlertBatch,
    MessageAttempt,
    MessageEnd,
    MessageFilter,
    MessagePart,
    MessageRecord,
)
from evenbeat.store.contract import ContradictoryBatch, Store
from evenbeat.testing.samples import T0, a_decision, a_message, an_alert
from evenbeat.testing.store_alerts import MAIL, WEBHOOK, keep, prune_all, refused
from evenbeat.testing.store_problems import KEEP, a_problem


def start(
    store: Store, channel: str = WEBHOOK, created: int = T0, document: bytes = b"{}", *, is_complete: bool = True
) -> MessageRecord:
    """Record a new message; return it as the store does."""
    message = replace(a_message(store.reserve_messages(1), channel, created, document), is_complete=is_complete)
    assert store.record_alerts(AlertBatch(messages=[message])).result() == NONE_REFUSED
    return replace(message, document=b"")


def end(store: Store, *messages: MessageRecord, at: int = T0 + 9, state: str = "delivered") -> None:
    """Record the ends of messages."""
    ends = [MessageEnd(message.id, at, state) for message in messages]
    assert store.record_alerts(AlertBatch(message_ends=ends)).result() == NONE_REFUSED


class MessagesContract:
    """A message is kept with the alerts that it tells, is tried until it ends, and ends once."""

    def test_ids_are_given_in_rows_and_never_twice(self, store: Store) -> None:
        first = store.reserve_messages(10)
        second = store.reserve_messages(1)
        assert (first >= 1, second) == (True, first + 10)
        message = start(store)
        assert message.id == second + 1
        end(store, message)
        prune_all(store, T0 + 2 * KEEP)
        assert store.messages() == []
        assert store.reserve_messages(1) == message.id + 1

    def test_a_message_comes_back_with_its_document_apart(self, store: Store) -> None:
        message = MessageRecord(
            store.reserve_messages(1), "a\0/é", "a\0", Instant(T0 + 3), 10_000, b"\0\xff" * 500_000, "waiting", 4,
            Instant(T0 + 5), Instant(T0 + 4), possible_repetition=True, error="e\0'", detail='d"\\',
        )  # fmt: skip
        assert store.record_alerts(AlertBatch(messages=[message])).result() == NONE_REFUSED
        assert store.messages() == store.unfinished_messages() == [replace(message, document=b"")]
        assert type(store.messages()[0].possible_repetition) is bool
        assert store.message_document(message.id) == message.document
        assert [store.message_document(id_) for id_ in (message.id + 1, 0, -1, 1 << 70)] == [None] * 4

    def test_it_is_tried_until_it_ends(self, store: Store) -> None:
        a, b = start(store), start(store)
        seen = []
        for attempt in (
            MessageAttempt(a.id, 1, None, T0 + 1),
            MessageAttempt(a.id, 1, T0 + 6, None, "no\0 answer", "HTTP 500", possible_repetition=True),
            MessageAttempt(a.id, 2, None, T0 + 6, possible_repetition=True),
        ):
            assert store.record_alerts(AlertBatch(attempts=[attempt])).result() == NONE_REFUSED
            found = store.messages(MessageFilter(ids=(a.id,)))[0]
            seen.append(MessageAttempt(*(getattr(found, name) for name in ("id", *MessageAttempt._fields[1:]))))
            assert seen[-1] == attempt
        last = MessageEnd(a.id, T0 + 9, "given up", "no\0 address", "d")
        assert store.record_alerts(AlertBatch(message_ends=[last])).result() == NONE_REFUSED
        (found,) = store.messages(MessageFilter(ids=(a.id,)))
        assert found == replace(
            a, attempts=2, state="given up", ended=Instant(T0 + 9), error="no\0 address", detail="d",
            possible_repetition=True,
        )  # fmt: skip
        assert store.unfinished_messages() == [b]
        assert store.message_document(a.id) == b"{}"

    def test_it_may_be_tried_and_end_in_one_batch(self, store: Store) -> None:
        a = start(store)
        batch = AlertBatch(
            attempts=[MessageAttempt(a.id, 1, None, T0 + 1)], message_ends=[MessageEnd(a.id, T0 + 2, "delivered")]
        )
        assert store.record_alerts(batch).result() == NONE_REFUSED
        (found,) = store.messages()
        assert (found.attempts, found.started_attempt, found.state) == (1, None, "delivered")

    def test_what_is_not_there_or_has_ended_is_refused(self, store: Store) -> None:
        a, b = start(store), start(store)
        end(store, a)
        before = store.messages()
        for batch in (
            AlertBatch(attempts=[MessageAttempt(a.id, 9, None, T0)]),
            AlertBatch(message_ends=[MessageEnd(a.id, T0 + 99, "given up")]),
            AlertBatch(messages=[a_message(a.id, MAIL)]),
        ):
            assert store.record_alerts(batch).result() == refused(messages=(a.id,))
        assert store.record_alerts(AlertBatch(messages=[a_message(b.id, MAIL)])).result() == refused(messages=(b.id,))
        unknown = b.id + 1
        both = [MessageEnd(unknown, T0, "delivered"), MessageEnd(b.id, T0 + 7, "delivered")]
        assert store.messages() == before
        assert store.record_alerts(AlertBatch(message_ends=both)).result() == refused(messages=(unknown,))
        assert store.unfinished_messages() == []

    def test_a_long_one_is_recorded_in_parts(self, store: Store) -> None:
        ids = [a_problem(store, name).id for name in "abcd"]
        message = replace(a_message(store.reserve_messages(1), document=b"{1"), is_complete=False)
        batch = AlertBatch([an_alert(ids[0], message=message.id)], messages=[message])
        assert store.record_alerts(batch).result() == NONE_REFUSED
        assert store.unfinished_messages() == [replace(message, document=b"")]
        for row, part in (
            ([an_alert(ids[1], message=message.id)], MessagePart(message.id, 2, b",2\0", is_last=False)),
            ([an_alert(ids[2], message=message.id)], MessagePart(message.id, 3, b",3}", is_last=True)),
        ):
            assert store.record_alerts(AlertBatch(row, parts=[part])).result() == NONE_REFUSED
        assert store.message_document(message.id) == b"{1,2\0,3}"
        assert store.unfinished_messages() == [replace(message, document=b"", items=6, is_complete=True)]
        late = AlertBatch(
            [an_alert(ids[3], message=message.id)], parts=[MessagePart(message.id, 1, b"x", is_last=True)]
        )
        assert store.record_alerts(late).result() == refused(*late.alerts, messages=(message.id,)), "it is complete"
        assert (store.alerts(ids[3]), store.message_document(message.id)) == ([], b"{1,2\0,3}")

    def test_a_part_is_kept_with_its_alerts_or_not_at_all(self, store: Store) -> None:
        ids = [a_problem(store, name).id for name in "ab"]
        message = start(store, is_complete=False)
        keep(store, an_alert(ids[1]))
        rows = [an_alert(id_, message=message.id) for id_ in ids]
        part = MessagePart(message.id, 2, b",2", is_last=False)
        both = [a_decision(*row.key) for row in rows]
        assert store.record_alerts(AlertBatch(rows, both, parts=[part])).result() == refused(
            *rows, messages=(message.id,)
        )
        assert (store.messages(), store.message_document(message.id)) == ([message], b"{}")
        assert [store.alerts(ids[0]), store.alert_decisions()] == [[], []]
        unknown, ended = message.id + 1, start(store, is_complete=False)
        end(store, ended)
        for id_ in (unknown, ended.id):
            batch = AlertBatch(parts=[part._replace(message=id_)])
            assert store.record_alerts(batch).result() == refused(messages=(id_,))
        assert store.record_alerts(AlertBatch(parts=[part])).result() == NONE_REFUSED
        twice = store.record_alerts(AlertBatch(parts=[part, part]))
        assert isinstance(twice.exception(), ContradictoryBatch)

    def test_it_ends_with_its_alerts_or_not_at_all(self, store: Store) -> None:
        ids = [a_problem(store, name).id for name in "abc"]
        message = store.reserve_messages(1)
        rows = [an_alert(id_, message=message) for id_ in ids[:2]]
        store.record_alerts(AlertBatch([*rows, an_alert(ids[2])], messages=[a_message(message)])).result()
        keep(store, an_alert(ids[1], version=1, message=message, held="downtime"))
        done = [an_alert(id_, version=1, sent=3) for id_ in ids]
        batch = AlertBatch(
            done, [a_decision(*row.key) for row in done], message_ends=[MessageEnd(message, T0 + 1, "delivered")]
        )
        assert store.record_alerts(batch).result() == refused(*done[:2], messages=(message,))
        assert [store.alerts(id_)[0].message for id_ in ids] == [message, message, 0]
        assert [store.alerts(id_)[0].sent for id_ in ids] == [0, 0, 3]
        assert [found.decision.problem for found in store.alert_decisions()] == [ids[2]]
        assert [found.id for found in store.unfinished_messages()] == [message]
        again = [done[0], done[1]._replace(version=2)]
        ends = [MessageEnd(message, T0 + 2, "delivered")]
        assert store.record_alerts(AlertBatch(again, message_ends=ends)).result() == NONE_REFUSED
        late = [an_alert(ids[0], version=2, sent=1)]
        given_up = [MessageEnd(message, T0 + 3, "given up")]
        assert store.record_alerts(AlertBatch(late, message_ends=given_up)).result() == refused(messages=(message,))
        assert store.messages()[0].state == "delivered"

    def test_alerts_of_a_message_that_has_ended_meanwhile_are_refused_with_its_end(self, store: Store) -> None:
        problem = a_problem(store).id
        message = start(store)
        keep(store, an_alert(problem, message=message.id))
        end(store, message)
        row = an_alert(problem, version=1, sent=1)
        batch = AlertBatch([row], message_ends=[MessageEnd(message.id, T0 + 99, "given up")])
        assert store.record_alerts(batch).result() == refused(row, messages=(message.id,))
        assert store.alerts(problem) == [an_alert(problem, version=1, message=message.id)]

    def test_what_ends_one_message_and_starts_another_is_refused_with_both(self, store: Store) -> None:
        ids = [a_problem(store, name).id for name in "abc"]
        old, new = start(store).id, store.reserve_messages(1)
        keep(store, an_alert(ids[0], message=old), an_alert(ids[1], message=old), an_alert(ids[2]))
        keep(store, an_alert(ids[0], version=1, message=old))
        rows = [an_alert(ids[0], version=1), *(an_alert(id_, version=1, message=new) for id_ in ids[1:])]
        batch = AlertBatch(rows, messages=[a_message(new)], message_ends=[MessageEnd(old, T0 + 1, "delivered")])
        assert store.record_alerts(batch).result() == refused(*rows, messages=(old, new))
        assert [message.id for message in store.messages()] == [old]

    def test_filters_select_newest_first(self, store: Store) -> None:
        a, b = start(store), start(store, MAIL, T0 + 5)
        c, d = start(store, "ops/email/2", T0 + 9), start(store, created=T0 + 7)
        end(store, a)
        end(store, d, state="given up")
        ended = {message.id: message for message in store.messages()}
        a, d = ended[a.id], ended[d.id]
        for only, expected in (
            (MessageFilter(), [d, c, b, a]),
            (MessageFilter(channel=WEBHOOK), [d, a]),
            (MessageFilter(channel="none"), []),
            (MessageFilter(contact="ops"), [d, c, a]),
            (MessageFilter(state="waiting"), [c, b]),
            (MessageFilter(state="given up", contact="ops"), [d]),
            (MessageFilter(ids=(a.id, b.id, a.id, 4711, -1, 1 << 70)), [b, a]),
            (MessageFilter(ids=(1 << 70,)), []),
            (MessageFilter(since=Instant(T0 + 7)), [d, c]),
            (MessageFilter(since=Instant(T0 + 5), contact="boss"), [b]),
            (MessageFilter(most=1), [d]),
            (MessageFilter(before=c.id), [b, a]),
            (MessageFilter(before=1 << 70), [d, c, b, a]),
            (MessageFilter(before=-1), []),
            (MessageFilter(channel=WEBHOOK, before=d.id, most=5), [a]),
        ):
            assert store.messages(only) == expected, only
        assert store.unfinished_messages() == [b, c]

    def test_the_document_goes_first_and_the_row_like_history(self, store: Store) -> None:
        early, late, waiting = start(store), start(store), start(store)
        end(store, early, at=T0 + 9)
        end(store, late, at=T0 + DAY)
        prune_all(store, T0 + 9 + DOCUMENT_KEPT)
        assert store.message_document(early.id) == b"{}", "it is as old as that, and no older"
        prune_all(store, T0 + 10 + DOCUMENT_KEPT)
        documents = [store.message_document(message.id) for message in (early, late, waiting)]
        assert documents == [None, b"{}", b"{}"]
        assert len(store.messages()) == 3
        prune_all(store, T0 + 9 + KEEP)
        assert len(store.messages()) == 3
        prune_all(store, T0 + 10 + KEEP)
        assert [message.id for message in store.messages()] == [waiting.id, late.id]
        prune_all(store, T0 + 9 * KEEP)
        assert store.messages() == [waiting]
        assert store.message_document(waiting.id) == b"{}", "it has not ended"
