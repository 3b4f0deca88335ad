"""`evenbeat contacts`: where messages about problems go, and whether they arrive; define, remove or test one."""

import argparse
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.cells import cell_len
from rich.text import Text

from evenbeat.admin.tasks_of_files import OVERWRITTEN_NOTICE, file_of_owner
from evenbeat.cli.output.common import console, number_option, print_json
from evenbeat.cli.task_selection import show_progress
from evenbeat.cli.typed_values import parse_value
from evenbeat.cli.which_database import database_option, open_client, url_option
from evenbeat.client.contract import Client
from evenbeat.core.channels import shown_url
from evenbeat.load.contacts import contact_from_table, contact_to_table
from evenbeat.load.safe_text import escaped_line
from evenbeat.model import Invalid
from evenbeat.report.contacts import ContactInfo, ContactPlace, contact_document
from evenbeat.store.alert_records import MessageFilter
from evenbeat.when.instant import parse_instant, spoken_instant
from evenbeat.when.zone import zone
from evenbeat.wire.documents import SentMessage
from evenbeat.wire.replies import ContactTestOutcome

_UTC: Final = zone("UTC")
_ACTIONS: Final = ("ls", "show", "set", "rm", "test")
_MAX_MESSAGES: Final = 10_000
_URL_KEYS: Final = ("send", "webhook", "smtp")


def run_command(args: argparse.Namespace) -> int:
    """List contacts, or change one; exit 0, or 1 if a test message did not arrive everywhere."""
    if args.action not in _ACTIONS:
        if args.name is not None:
            raise Invalid(f"{args.action[:64]!r} is none of {', '.join(_ACTIONS)}; `evenbeat contacts NAME` shows one")
        args.action, args.name = "show", args.action
    if args.action != "set" and args.changes:
        raise Invalid(f"`evenbeat contacts {args.action}` takes one name")
    if args.action == "ls":
        return _list(args)
    if not args.name:
        raise Invalid(f"which contact? `evenbeat contacts {args.action} NAME`")
    match args.action:
        case "set":
            return _set(args)
        case "rm":
            return _remove(args)
        case "show":
            return _show(args)
    return _test(args)


def _list(args: argparse.Namespace) -> int:
    if args.name:
        raise Invalid("`evenbeat contacts` lists all contacts, and takes no name")
    with open_client(args) as client:
        found = client.contacts()
    if args.json:
        print_json({"contacts": [contact_document(info, secrets=True) for info in found]})
        return 0
    if not found:
        print("no contacts: nobody is notified; [contacts.NAME] in a file defines one, or `evenbeat contacts set NAME`")
        return 0
    rows = [("name", "places", "gets", "used by"), *map(_row, found)]
    widths = [max(cell_len(row[i]) for row in rows) for i in range(3)]
    out = console()
    for i, row in enumerate(rows):
        cells = (cell + " " * (width - cell_len(cell) + 3) for cell, width in zip(row, widths, strict=False))
        out.print(Text("".join((*cells, row[-1])), style="" if i else "dim"))
    return 0


def _row(info: ContactInfo) -> tuple[str, str, str, str]:
    states = ", ".join(state.value for state in info.states) or "all problems"
    period = "" if info.period is None else f" in {info.period}"
    tasks = f"{info.tasks:,} task{'' if info.tasks == 1 else 's'}"
    places = ", ".join(map(_place_words, info.places))
    return escaped_line(info.name), escaped_line(places), escaped_line(f"{states}{period}"), tasks


def _place_words(place: ContactPlace) -> str:
    failing = " (failing)" if place.failing else ""
    return f"{place.kind} {place.shown}{' (not executed)' if place.blocked else ''}{failing}"


def _show(args: argparse.Namespace) -> int:
    most = number_option(args.n, "-n", _MAX_MESSAGES) or 0
    with open_client(args) as client:
        info = _find(client, args.name)
        if info is None:
            raise Invalid(f"there is no contact {args.name[:64]!r}")
        messages = client.messages(MessageFilter(contact=args.name, most=most))
    if args.json:
        print_json({**contact_document(info, secrets=True), "messages": msgspec.to_builtins(messages)})
        return 0
    out = console()
    _, _, gets, tasks = _row(info)
    out.print(Text.assemble((escaped_line(info.name), "bold"), f"  gets {gets}, used by {tasks}"))
    for place in info.places:
        latest = "nothing was sent to it" if place.latest is None else place.latest.text
        line = f"  {_place_words(place)}: {latest}"
        out.print(Text(escaped_line(line), "red" if place.failing else ""))
    if messages:
        out.print("\n[bold]messages[/bold]")
    for message in messages:
        out.print(Text(escaped_line(_message_words(message))))
    return 0


def _message_words(message: SentMessage) -> str:
    when = spoken_instant(parse_instant(message.created, _UTC), _UTC)
    problems = f"{message.items:,} problem{'' if message.items == 1 else 's'}"
    place = f"{message.kind} {message.place}".rstrip()
    return f"  {message.id}  {when}  about {problems}, by {place}: {message.text}"


def _set(args: argparse.Namespace) -> int:
    changes = _changes(args.changes)
    with open_client(args, new=True) as client:
        before = None if _is_new_database(args) else _find(client, args.name)
        if before is not None and before.contact is None:
            raise Invalid("only the role admin reads what a contact is defined as, and changes it")
        table = {} if before is None or before.contact is None else contact_to_table(before.contact)
        whole = {key: value for key, value in {**table, **changes}.items() if value is not None}
        client.set_contact(args.name, contact_from_table(args.name, whole))
    _report(args, "changed" if before is not None else "created")
    if before is not None and (file := file_of_owner(before.owner)) is not None:
        print(f"evenbeat contacts: {args.name} comes from {file}: {OVERWRITTEN_NOTICE}", file=sys.stderr)
    return 0


def _is_new_database(args: argparse.Namespace) -> bool:
    if url_option(args) is not None:
        return False
    path = database_option(args)
    return isinstance(path, Path) and not path.exists()


def _find(client: Client, name: str) -> ContactInfo | None:
    return next((info for info in client.contacts() if info.name == name), None)


def _changes(texts: list[str]) -> dict[str, Any]:
    if not texts:
        raise Invalid("what is it? KEY=VALUE, such as email=ops@example.org")
    changes: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise Invalid(f"{text[:64]!r} is not KEY=VALUE, such as email=ops@example.org; KEY= restores the default")
        changes[key] = parse_value(value) if value else None
    _warn_of_secrets(changes)
    return changes


def _warn_of_secrets(changes: dict[str, Any]) -> None:
    for key in _URL_KEYS:
        value = changes.get(key)
        urls = value if isinstance(value, list) else [value]
        if any(isinstance(url, str) and _may_be_secret(key, url) for url in urls):
            problem = "every user of this machine can read this URL in the list of processes"
            advice = "if it is secret, write env:NAME or file:/PATH in its place"
            print(f"evenbeat contacts: {key}: {problem}; {advice}", file=sys.stderr)


def _may_be_secret(key: str, url: str) -> bool:
    """A mail server's URL is secret for its password only, others for any part that is not shown."""
    return "@" in url if key == "smtp" else shown_url(url) != url


def _remove(args: argparse.Namespace) -> int:
    with open_client(args) as client:
        client.remove_contact(args.name)
    _report(args, "removed")
    return 0


def _test(args: argparse.Namespace) -> int:
    with open_client(args) as client, show_progress(f"sending to {args.name}"):
        found = client.test_contact(args.name)
    if args.json:
        print_json({"contact": args.name, "places": [_outcome_document(outcome) for outcome in found]})
    else:
        for outcome in found:
            print(f"{outcome.kind} {outcome.shown}: {_outcome_words(outcome)}")
        if not found:
            print(f"{args.name} has no place that may be used", file=sys.stderr)
    return 0 if found and all(outcome.is_delivered for outcome in found) else 1


def _outcome_words(outcome: ContactTestOutcome) -> str:
    if outcome.is_delivered:
        return f"delivered{f' ({outcome.detail})' if outcome.detail else ''}"
    return f"not delivered: {outcome.error or 'no reason is known'}{f' ({outcome.detail})' if outcome.detail else ''}"


def _outcome_document(outcome: ContactTestOutcome) -> dict[str, Any]:
    return {
        "kind": outcome.kind,
        "shown": outcome.shown,
        "delivered": outcome.is_delivered,
        "error": outcome.error,
        "detail": outcome.detail,
    }


def _report(args: argparse.Namespace, done: str) -> None:
    if args.json:
        print_json({done: args.name})
    else:
        print(f"{done} {args.name}")
