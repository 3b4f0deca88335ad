"""Why was somebody notified of a task's problem, or nobody? For each contact in plain words, from what a store has.

What comes next is decided here as the node decides it, by `core.alerts`, so the answer needs no node.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from evenbeat.model import Entry, Instant
from evenbeat.report.channel_story import ChannelStory
from evenbeat.report.documents import iso_time
from evenbeat.report.notification_reader import NotificationReader
from evenbeat.report.notification_words import GIVEN_UP, SENT, decision_words
from evenbeat.report.why_facts import ContactAnswer
from evenbeat.store.alert_records import AlertDecision, AlertProblem, AlertRecord, MessageRecord
from evenbeat.store.contract import Filter, ProblemFilter, Store
from evenbeat.store.problem_records import ProblemRecord
from evenbeat.when.duration import spoken_duration
from evenbeat.when.zone import Zone

_MOST_PAST_PROBLEMS: Final = 10
_MOST_PAST_LINES: Final = 5
"""About one channel: the latest of a time in the past."""


def notified_now(
    store: Store,
    entry: Entry,
    open_problems: Sequence[ProblemRecord],
    now: Instant,
    where: Zone,
    *,
    is_limited: bool = False,
) -> list[ContactAnswer]:
    """A line for each contact about each open problem of a task, or about the latest one that has closed."""
    problems = open_problems or store.problems(ProblemFilter(Filter(names=(entry.id,)), is_open=False, most=1))
    found = store.alert_problems([problem.id for problem in problems]) if problems else []
    if not entry.task.notify and not any(alerts for _, alerts in found):
        return [ContactAnswer("nobody is notified: it has no `notify`")]
    reader = NotificationReader(store, entry.task, now, where, is_limited=is_limited)
    if not found:
        return [ContactAnswer(f"no problem is on record; when one opens, {_wishes(reader)}")]
    answers: list[ContactAnswer] = []
    for problem, alerts in found:
        over = "" if problem.closed is None else f", over since {reader.at(problem.closed)}"
        about = "" if len(found) == 1 and problem.closed is None else f"problem {problem.id}{over}: "
        answers += (replace(answer, text=about + answer.text) for answer in _about_problem(reader, problem, alerts))
    return answers


def _wishes(reader: NotificationReader) -> str:
    """Who would be told of a problem: "ops is told at once, boss is told after 30 min"."""
    told = (
        f"{wish.to} is told {f'after {spoken_duration(wish.after)}' if wish.after else 'at once'}"
        for wish in reader.route.notify
    )
    return ", ".join(told)


def _about_problem(
    reader: NotificationReader, problem: AlertProblem, alerts: list[AlertRecord]
) -> Iterator[ContactAnswer]:
    """Contacts in the order of `notify`, then those that are not in it any more; channels that have the same answer
    share a line.
    """
    records = {record.channel: record for record in alerts}
    by_channel: dict[str, list[AlertDecision]] = {}
    for decision in reader.decisions(problem.id):
        by_channel.setdefault(decision.channel, []).append(decision)
    keys: dict[str, dict[str, None]] = {}
    for wish in reader.route.notify:
        known = reader.book.contacts.get(wish.to)
        keys[wish.to] = {} if known is None else dict.fromkeys(channel.key for channel in known.channels)
    for record in alerts:
        keys.setdefault(record.contact, {})[record.channel] = None
    for name, channels in keys.items():
        if not channels:
            yield ContactAnswer(f"{name} is not told: it has no place that messages may go to", name, problem.id)
        seen: dict[str, ContactAnswer] = {}
        for key in channels:
            story = ChannelStory(reader, problem, key, name, records.get(key), by_channel.get(key, []))
            answer = story.answer()
            seen.setdefault(answer.text, answer)
        yield from seen.values()
    if not keys:
        yield ContactAnswer("nobody is notified: it has no `notify`", "", problem.id)


def notified_then(
    store: Store,
    entry: Entry,
    problems: Iterable[ProblemRecord],
    span: tuple[Instant, Instant],
    now: Instant,
    where: Zone,
    *,
    is_limited: bool = False,
) -> list[ContactAnswer]:
    """What was decided around a time in the past, about problems of a task that were open then."""
    start, end = span
    if start > now:
        return []
    open_then = [p for p in problems if p.opened < end and (p.closed is None or p.closed >= start)]
    if not open_then:
        return [ContactAnswer("nobody was notified then: no problem of it is on record for that time")]
    reader = NotificationReader(store, entry.task, now, where, is_limited=is_limited)
    answers: list[ContactAnswer] = []
    for problem in open_then[:_MOST_PAST_PROBLEMS]:
        about = f"problem {problem.id}: " if len(open_then) > 1 else ""
        answers += (replace(answer, text=about + answer.text) for answer in _decided(reader, problem, start, end))
    if (more := len(open_then) - _MOST_PAST_PROBLEMS) > 0:
        answers.append(ContactAnswer(f"and {more:,} more problems were open then"))
    return answers


def _decided(
    reader: NotificationReader, problem: ProblemRecord, start: Instant, end: Instant
) -> Iterator[ContactAnswer]:
    """What was decided about a problem in a span; of a channel without such a decision, the last one before."""
    by_channel: dict[str, list[AlertDecision]] = {}
    for decision in reader.decisions(problem.id, end):
        by_channel.setdefault(decision.channel, []).append(decision)
    shown: list[tuple[AlertDecision, str]] = []
    more = 0
    for known in by_channel.values():
        within = [decision for decision in known if decision.at >= start]
        shown += ((decision, "") for decision in within[:_MOST_PAST_LINES])
        shown += ((decision, "the last decision before: ") for decision in known[: 0 if within else 1])
        more += len(within[_MOST_PAST_LINES:])
    shown.sort(key=lambda line: (line[0].at, line[0].channel))
    messages = reader.messages(decision for decision, _ in shown)
    told = [_past_answer(reader, problem.id, line, messages.get(line.message), before) for line, before in shown]
    yield from {answer.text: answer for answer in told}.values()
    if more:
        yield ContactAnswer(f"and {more:,} more decisions then", "", problem.id)
    contacts = {decision.contact for known in by_channel.values() for decision in known}
    for name in dict.fromkeys(wish.to for wish in reader.route.notify if wish.to not in contacts):
        yield ContactAnswer(f"nothing had been decided about {name} until then", name, problem.id)
    if not contacts and not reader.route.notify:
        yield ContactAnswer("nobody was notified: no decision is on record, and it has no `notify`", "", problem.id)


def _past_answer(
    reader: NotificationReader, problem: int, decision: AlertDecision, message: MessageRecord | None, before: str
) -> ContactAnswer:
    words = decision_words(decision, message, reader.place(decision.channel), reader.now, reader.where)
    return ContactAnswer(
        f"{before}{reader.at(decision.at)}: {words}",
        decision.contact,
        problem,
        outcome=decision.decision,
        reason="" if decision.decision == GIVEN_UP else decision.reason,
        place=reader.place(decision.channel),
        sent_at=iso_time(Instant(decision.at)) if decision.decision == SENT else None,
        message=decision.message or None,
        delivery="" if message is None else message.state,
        error="" if message is None else message.error,
    )
