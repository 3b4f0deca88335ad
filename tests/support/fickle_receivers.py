"""Receivers of notifications whose behaviour changes while they work, and what arrived at them, for an oracle.

It shares no code with evenbeat: the JSON of a webhook and the text of a mail are read by rules of their own.
"""

import asyncio
import re
import time
from typing import Any, Final, NamedTuple

from message_receivers import HttpReceiver, ReceivedMail, SmtpReceiver

TAKEN: Final = "taken"
REFUSED: Final = "refused"
UNCLEAR: Final = "unclear"
"""It arrived, and the sender cannot know."""
HTTP_VERDICTS: Final = {
    "ok": TAKEN,
    "slow": TAKEN,
    "500": REFUSED,
    "hang": UNCLEAR,
    "take-and-close": UNCLEAR,
    "garbage": UNCLEAR,
}
"""What becomes of a message by the behaviour of the receiver; with "close" nothing arrives."""
HTTP_BEHAVIOURS: Final = (*HTTP_VERDICTS, "close")
MAIL_VERDICTS: Final = {"ok": TAKEN, "refuse mail": REFUSED, "close": UNCLEAR}
MAIL_BEHAVIOURS: Final = (*MAIL_VERDICTS, "hang")
_REPEATED: Final = "You may have got this message before"
_DIGEST_LINE: Final = re.compile(
    r"(?:(?P<over>OK|Closed)|(?P<ack>Acknowledged[^:]*)"
    r"|(?P<still>Still )?(?:CRITICAL|WARNING|UNKNOWN|OK(?=, flapping))(?:, flapping)?)"
    r": (?P<task>\w+)"
)
_SINGLE_LINE: Final = re.compile(
    r"(?!It )(?P<task>\w+)(?:(?P<over> is fine again\.| is no problem any more:)"
    r"|(?P<ack>: the problem was acknowledged)|(?P<still> is still) | has been )"
)


class ArrivedItem(NamedTuple):
    """What a message said of one problem."""

    kind: str
    reminder: bool
    task: str
    problem: int = 0
    """Its id; 0 in mails, which do not say it."""
    state: str = ""
    """Not known from mails."""


class Arrival(NamedTuple):
    """A message that arrived as a whole."""

    at: int
    channel: str
    """The contact: each has one channel here."""
    verdict: str
    message: int
    is_marked: bool
    """It says that it may be a repetition."""
    items: tuple[ArrivedItem, ...]


class FickleHttpReceiver(HttpReceiver):
    """It treats all requests as `behaviour` says, whatever their path."""

    def __init__(self) -> None:
        super().__init__()
        self.behaviour = "ok"
        self.arrivals: list[Arrival] = []

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.behaviour == "close":
            writer.transport.abort()
            return
        await super()._handle(reader, writer)

    async def _behave(
        self, how: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_first: bool
    ) -> None:
        # It is called as soon as the request was added, and the behaviour may change while it is being answered.
        how = "take-and-close" if self.behaviour == "close" else self.behaviour
        self.arrivals.append(_webhook_arrival(self.requests[-1].document, HTTP_VERDICTS[how]))
        await super()._behave(how, reader, writer, is_first=is_first)


class FickleSmtpReceiver(SmtpReceiver):
    """A mail server; `behaviour` may change between two mails."""

    def __init__(self) -> None:
        super().__init__()
        self._judged = _JudgedMails(self)
        self.mails = self._judged

    def arrivals(self, channel: str) -> list[Arrival]:
        """All that was taken as a whole."""
        found = list(zip(self._judged, self._judged.moments, strict=False))
        return [_mail_arrival(mail, channel, at, verdict) for mail, (at, verdict) in found]


class _JudgedMails(list[ReceivedMail]):
    """Notes what the server does with each mail that it adds: its behaviour may change just afterwards."""

    def __init__(self, receiver: SmtpReceiver) -> None:
        super().__init__()
        self._receiver = receiver
        self.moments: list[tuple[int, str]] = []

    def append(self, mail: ReceivedMail) -> None:
        self.moments.append((_now(), MAIL_VERDICTS.get(self._receiver.behaviour, TAKEN)))
        super().append(mail)


def _webhook_arrival(document: Any, verdict: str) -> Arrival:
    items = tuple(
        ArrivedItem(item["kind"], item["reminder"], item["task"], item["problem"], item["state"])
        for item in document["items"]
    )
    return Arrival(_now(), document["contact"], verdict, document["message"], document["possible_repetition"], items)


def _mail_arrival(mail: ReceivedMail, channel: str, at: int, verdict: str) -> Arrival:
    text = mail.text
    items = tuple(item for line in text.splitlines() if (item := _item_of_line(line)) is not None)
    return Arrival(at, channel, verdict, int(mail.message["X-Evenbeat-Message"]), _REPEATED in text, items)


def _item_of_line(line: str) -> ArrivedItem | None:
    found = _DIGEST_LINE.match(line) or _SINGLE_LINE.match(line)
    if found is None:
        return None
    kind = "recovery" if found["over"] else "acknowledged" if found["ack"] else "problem"
    return ArrivedItem(kind, bool(found["still"]), found["task"])


def _now() -> int:
    return time.time_ns() // 1_000
