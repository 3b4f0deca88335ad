"""The contact that a MAILTO stands for."""

from hashlib import blake2b
from typing import Final

from evenbeat.load.contacts import address_error
from evenbeat.model import NAME_LIMIT, PLACE_LIMIT, Contact, Invalid

ONLY_FAILURES_ARE_MAILED: Final = "a run that fails is mailed; the output of others is kept with the run and not mailed"


def contact_of_mailto(mailto: str) -> tuple[str, Contact] | None:
    """The contact and its name; None if nobody is mailed. Raise Invalid if these are no addresses."""
    words = dict.fromkeys(mailto.replace(",", " ").split())
    if not words:
        return None
    addresses = tuple(word if "@" in word else f"{word}@localhost" for word in words)
    if len(addresses) > PLACE_LIMIT:
        raise Invalid(f"more than {PLACE_LIMIT} addresses")
    if problem := next(filter(None, map(address_error, addresses)), ""):
        raise Invalid(problem)
    name = ", ".join(words)
    if len(name) > NAME_LIMIT:
        name = f"MAILTO {blake2b(name.encode(), digest_size=8).hexdigest()}"
    return name, Contact(email=addresses)
