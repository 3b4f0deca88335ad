"""Channels: the places of a contact, each of which gets its own messages in its own order."""

import json
import re
from hashlib import blake2b
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from evenbeat.model import ENV_REFERENCE_PREFIXES, Contact

ChannelKind = Literal["send", "webhook", "command", "email"]

_PLAIN_SCHEMES: Final = {"http", "json", "xml", "form", "mailto", "gotify", "mmost", "mqtt", "smtp"}
_SCHEMES_WITH_HOST: Final = frozenset({*_PLAIN_SCHEMES, *(f"{scheme}s" for scheme in _PLAIN_SCHEMES), "smtp+starttls"})
"""Of these URLs the part after the scheme is a host. Many services have a token in its place: slack, tgram, discord."""
_HOST: Final = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9a-fA-F:.]{2,45}")
_MAILTO: Final = re.compile(r"mailto:[^\s@/:?#%]{1,64}@[A-Za-z0-9.-]{1,253}")
"""Only an address, which is no secret."""
_SHOWN_ADDRESSES: Final = 3


class Channel(NamedTuple):
    """One place of a contact."""

    key: str
    """The name of the contact, the kind, and 8 hexadecimal digits of the place: another URL is another channel."""
    contact: str
    kind: ChannelKind
    place: str
    """As it is defined, so it may be a reference. Of a command its words, of email its addresses, as a JSON list."""
    shown: str
    """The place for people, without secrets."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words of a command, or the addresses of email."""
        return tuple(json.loads(self.place))


def channels_of(name: str, contact: Contact) -> tuple[Channel, ...]:
    """The channels of the contact with this name."""
    found = [_channel(name, "send", url, shown_url(url)) for url in contact.send]
    if contact.webhook is not None:
        found.append(_channel(name, "webhook", contact.webhook, shown_url(contact.webhook)))
    if contact.command:
        found.append(_channel(name, "command", _encode(contact.command), contact.command[0]))
    if contact.email:
        more = len(contact.email) - _SHOWN_ADDRESSES
        shown = ", ".join(contact.email[:_SHOWN_ADDRESSES]) + (f" and {more} more" if more > 0 else "")
        found.append(_channel(name, "email", _encode(contact.email), shown))
    return tuple(found)


def is_reference(text: str) -> bool:
    """Does it say where the value is, instead of being it?"""
    return text.startswith(ENV_REFERENCE_PREFIXES)


def shown_url(url: str) -> str:
    """A URL without what may be secret: its scheme, and its host where there is one. A reference is shown whole."""
    if is_reference(url):
        return url
    if _MAILTO.fullmatch(url):
        return url
    scheme = url.partition(":")[0]
    return f"{scheme}://{_host(url) or '...'}"


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return ""
    # An @ further on: the password before it has a character that should have been encoded, and the host is none.
    if "@" in parts.path + parts.fragment + parts.query.partition("=")[0]:
        return ""
    return host if parts.scheme in _SCHEMES_WITH_HOST and _HOST.fullmatch(host) else ""


def _channel(contact: str, kind: ChannelKind, place: str, shown: str) -> Channel:
    digest = blake2b(place.encode(), digest_size=4).hexdigest()
    return Channel(f"{contact}/{kind}/{digest}", contact, kind, place, shown)


def _encode(words: tuple[str, ...]) -> str:
    return json.dumps(words, ensure_ascii=False)
