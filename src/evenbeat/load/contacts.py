"""Contacts as users write them: tables of files, documents of the API, arguments of programs, with one set of rules."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import msgspec

from evenbeat.core.channels import is_reference
from evenbeat.load.config import NodeSettings
from evenbeat.load.config_errors import DocumentErrors
from evenbeat.load.locate import KeyPath
from evenbeat.load.safe_text import name_error, text_error
from evenbeat.model import HOUR, MINUTE, NAME_LIMIT, NOTIFY_LIMIT, Contact, ContactState, Invalid, NotifyContact
from evenbeat.when.duration import format_duration, parse_duration

CONTACT_KEYS: Final = Contact.__struct_fields__
_LISTS_OR_ONE: Final = ("send", "email", "states")
"""Keys whose value may be one text instead of a list."""
_STATES: Final = tuple(state.value for state in ContactState)
_NOTIFY_KEYS: Final = NotifyContact.__struct_fields__
_NOTIFY_ACCEPTED: Final = 'accepted: names of contacts, such as ["ops", { to = "boss", after = "30m" }]'
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}(?=:)")
_ADDRESS: Final = re.compile(r"""[^\s@<>,;:"()\[\]\\]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?""")
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_REFERENCE_ACCEPTED: Final = "env:NAME or file:/PATH"
_SMTP_SCHEMES: Final = ("smtp", "smtps", "smtp+starttls")
_HTTP_SCHEMES: Final = ("http", "https")


# Contacts


def contact_of_table(errors: DocumentErrors, path: tuple[str, ...], table: Mapping[str, Any]) -> Contact | None:
    """The contact of a table, or None if it was refused."""
    before = len(errors)
    known = errors.known_keys(path, dict(table), CONTACT_KEYS)
    for key in _LISTS_OR_ONE:
        if isinstance(known.get(key), str):
            known[key] = [known[key]]
    if isinstance(known.get("command"), str):
        errors.refuse((*path, "command"), "one text, accepted: a list of words, the program first; there is no shell")
        del known["command"]
        if not known.keys() & {"send", "webhook", "email"}:
            return None  # its only place was refused
    for i, state in enumerate(known["states"]) if isinstance(known.get("states"), list) else ():
        if state not in _STATES:
            accepted = ", ".join(_STATES)
            errors.refuse((*path, "states", i), f"{str(state)[:64]!r} is not a state, accepted: {accepted}")
            known = {**known, "states": []}
    contact = errors.convert(path, known, Contact)
    for where, problem in contact_errors(contact) if contact is not None else ():
        errors.refuse((*path, *where), problem)
    return contact if len(errors) == before else None


def contact_from_table(name: str, table: Mapping[str, Any]) -> Contact:
    """The contact of a table; all errors are raised as one Invalid."""
    if problem := contact_name_error(name):
        raise Invalid(problem, place="name")
    errors = DocumentErrors()
    contact = contact_of_table(errors, (), table)
    if len(errors) == 1:
        raise errors.errors[0][1]
    if errors.errors or contact is None:
        raise Invalid("\n".join(str(error) for _, error in errors.errors))
    return contact


def contact_to_table(contact: Contact) -> dict[str, Any]:
    """The keys of a contact, as a file has them."""
    table: dict[str, Any] = msgspec.to_builtins(contact)
    return table


def contact_name_error(name: str) -> str:
    """Why a contact cannot have this name; empty if it can."""
    if not 1 <= len(name) <= NAME_LIMIT:
        return f"the name: accepted: 1 to {NAME_LIMIT} characters"
    return f"the name: {problem}" if (problem := name_error(name)) else ""


def contact_errors(contact: Contact) -> Iterator[tuple[KeyPath, str]]:
    """What is wrong with the values of a contact: the key, and why. No message repeats a URL, which may be secret."""
    for i, url in enumerate(contact.send):
        if problem := service_url_error(url):
            yield ("send", i), problem
    if contact.webhook is not None and (problem := web_url_error(contact.webhook)):
        yield ("webhook",), problem
    if contact.secret is not None and (problem := _secret_error(contact.secret)):
        yield ("secret",), problem
    if contact.command and (problem := _command_error(contact.command)):
        yield ("command",), problem
    for i, address in enumerate(contact.email):
        if problem := address_error(address):
            yield ("email", i), problem
    if problem := _smtp_error(contact.smtp):
        yield ("smtp",), problem
    if contact.sender is not None and (problem := address_error(contact.sender)):
        yield ("sender",), problem
    for key in ("send", "email", "states"):
        values = getattr(contact, key)
        if twice := next((i for i, value in enumerate(values) if value in values[:i]), 0):
            yield (key, twice), "the same as one before it"


def service_url_error(url: str) -> str:
    """Why a URL is not one of a service in apprise's notation, nor a reference; empty if it is."""
    if is_reference(url):
        return _reference_error(url)
    scheme = _SCHEME.match(url)
    if scheme is not None and scheme[0] == "mailto" and "@" in url:
        return _character_error(url)  # mailto:anna@example.org, or as apprise has it
    if scheme is None or not url[scheme.end() :].startswith("://") or len(url) <= scheme.end() + 3:
        return f"not a URL, accepted: mailto:NAME@HOST, SERVICE://... as apprise has it, {_REFERENCE_ACCEPTED}"
    return _character_error(url)


def web_url_error(url: str) -> str:
    """Why this is not an HTTP URL, nor a reference to one; empty if it is."""
    if is_reference(url):
        return _reference_error(url)
    return _url_error(url, _HTTP_SCHEMES, f"http://HOST/..., https://HOST/..., {_REFERENCE_ACCEPTED}")


def page_url_error(url: str) -> str:
    """Why links in messages cannot begin with this URL; empty if they can."""
    accepted = "http://HOST/... or https://HOST/..., without user, query or fragment"
    problem = _url_error(url, _HTTP_SCHEMES, accepted)
    if not problem and ("@" in url or "?" in url or "#" in url):
        return f"not the URL of a page, accepted: {accepted}"
    return problem


def node_url_errors(node: NodeSettings) -> Iterator[tuple[str, str]]:
    """What is wrong with the URLs of [node]: the key, and why."""
    if node.page is not None and (problem := page_url_error(node.page)):
        yield "page", problem
    if node.ping is not None and (problem := web_url_error(node.ping)):
        yield "ping", problem


def address_error(address: str) -> str:
    """Why this is not a mail address; empty if it is."""
    if _ADDRESS.fullmatch(address) and ".." not in address and not text_error(address):
        return ""
    return f"{address[:64]!r} is not a mail address, accepted: NAME@HOST"


def _secret_error(secret: str) -> str:
    if is_reference(secret):
        return _reference_error(secret)
    return f"a secret is not written here but referred to, accepted: {_REFERENCE_ACCEPTED}"


def _smtp_error(url: str) -> str:
    if is_reference(url):
        return _reference_error(url)
    accepted = f"smtp://HOST:PORT, smtps://..., smtp+starttls://..., {_REFERENCE_ACCEPTED}"
    if problem := _url_error(url, _SMTP_SCHEMES, accepted):
        return problem
    parts = urlsplit(url)
    return f"not a URL of a mail server, accepted: {accepted}" if parts.path.strip("/") or parts.query else ""


def _command_error(words: Iterable[str]) -> str:
    if any("\0" in word for word in words):
        return "a NUL, which no command can have"
    return "" if next(iter(words)) else "the first word is empty, accepted: a program and its arguments"


def _reference_error(reference: str) -> str:
    kind, _, where = reference.partition(":")
    if "\0" in where or text_error(where):
        return f"a {kind} reference with a control character"
    if kind == "env":
        return "" if _ENV_NAME.fullmatch(where) else f"{where[:64]!r} is not the name of a variable, accepted: env:NAME"
    return "" if where.startswith("/") else f"{where[:64]!r} is not an absolute path, accepted: file:/PATH"


def _url_error(url: str, schemes: Iterable[str], accepted: str) -> str:
    parts = _split(url)
    if parts is None or parts.scheme not in schemes or not parts.hostname:
        return f"not a URL of this kind, accepted: {accepted}"
    return _character_error(url)


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises if it is none
    except ValueError:
        return None
    return parts


def _character_error(url: str) -> str:
    if text_error(url) or any(sign.isspace() for sign in url):
        return "a space or a control character in a URL, accepted: such characters as %20"
    return ""


# Who is notified


def parse_notify(value: object) -> tuple[NotifyContact, ...]:
    """The value of `notify`: a name, or a list of names and tables. Raise Invalid; its `place` is the position."""
    items = [value] if isinstance(value, str | dict) else value
    if not isinstance(items, list | tuple):
        raise Invalid(f"{str(value)[:64]!r} names no contacts, {_NOTIFY_ACCEPTED}")
    if len(items) > NOTIFY_LIMIT:
        raise Invalid(f"{len(items)} contacts, accepted: at most {NOTIFY_LIMIT}")
    found: list[NotifyContact] = []
    for i, item in enumerate(items):
        one = _notify_contact(item, str(i))
        if any(one.to == other.to for other in found):
            raise Invalid(f"the contact {one.to!r} is named twice", place=str(i))
        found.append(one)
    return tuple(found)


def notify_of_value(errors: DocumentErrors, path: KeyPath, value: object) -> tuple[NotifyContact, ...] | None:
    """The value of `notify`, or None if it was refused."""
    try:
        return parse_notify(value)
    except Invalid as e:
        errors.refuse((*path, *((int(e.place),) if e.place else ())), e.problem)
        return None


def _notify_contact(item: object, place: str) -> NotifyContact:
    if isinstance(item, NotifyContact):
        return item
    table: dict[str, Any] = {"to": item} if isinstance(item, str) else item if isinstance(item, dict) else {}
    name = table.get("to")
    if not isinstance(name, str) or not 1 <= len(name) <= NAME_LIMIT:
        raise Invalid(f"{str(item)[:64]!r} names no contact, {_NOTIFY_ACCEPTED}", place=place)
    if unknown := next((key for key in table if key not in _NOTIFY_KEYS), None):
        raise Invalid(f"{unknown[:64]!r} is not a key here, accepted: {', '.join(_NOTIFY_KEYS)}", place=place)
    try:
        return msgspec.convert({"to": name, "after": parse_duration(table.get("after", 0))}, NotifyContact)
    except msgspec.ValidationError:
        raise Invalid(f"{table['after']!r} is out of range, accepted: up to 3653d", place=place) from None
    except Invalid as e:
        raise Invalid(f"after: {e.problem}", place=place) from None


def notify_to_list(notify: Iterable[NotifyContact]) -> list[str | dict[str, str]]:
    """The value of `notify`, as a file has it."""
    return [one.to if not one.after else {"to": one.to, "after": format_duration(one.after)} for one in notify]


def notify_range_error(key: str, length: int) -> str:
    """Why `repeat` or `gather` cannot have this length; empty if it can."""
    if key == "repeat" and not length >= MINUTE:
        return "accepted: at least 1m; without `repeat` there are no reminders"
    return "accepted: up to 1h" if key == "gather" and length > HOUR else ""
