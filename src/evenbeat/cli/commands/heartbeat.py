"""`evenbeat heartbeat`: create, test or remove the URL with which a program reports that a passive check is alive."""

import argparse
import secrets
import ssl
import sys
import urllib.request
from typing import Final
from urllib.error import HTTPError

from evenbeat.cli.arguments import NEW_URL
from evenbeat.cli.output.common import print_json
from evenbeat.cli.task_selection import require_task
from evenbeat.cli.which_database import open_client, user_name
from evenbeat.client.contract import Client
from evenbeat.model import Entry, Invalid, RunKind
from evenbeat.wire.documents import Heartbeat

_PATIENCE: Final = 30.0
_LATEST: Final = 20
"""Records among which the one of the test is searched for."""


def run_command(args: argparse.Namespace) -> int:
    """Create, test or remove the URL; exit 0, or 1 if the test failed."""
    if args.drop and args.test:
        raise Invalid("--drop removes the URL, --test tests it: give one of them")
    with open_client(args) as client:
        entry = require_task(client, args.name)
        name = entry.task.name
        if args.drop:
            client.remove_heartbeat(name)
            print_json({"task": name, "token": None}) if args.json else print(f"removed the heartbeat of {name}")
            return 0
        made = client.create_heartbeat(name) if args.test in (None, NEW_URL) else None
        if made is not None and not args.json:
            _show(name, made)
        if args.test is None:
            if args.json and made is not None:
                print_json({"task": name, "token": made.token, "url": made.url or None})
            return 0
        url = args.test if made is None else made.url
        problem = _problem_of(url, entry, client, args.ca_file)
    if args.json:
        tested = {"task": name, "url": url or None, "problem": problem or None}
        print_json(tested if made is None else {**tested, "token": made.token})
    elif problem:
        print(f"evenbeat heartbeat: {problem}", file=sys.stderr)
    else:
        print(f"the test arrived: it is in `evenbeat history`, and changed no state of {name}")
    return 1 if problem else 0


def _show(name: str, made: Heartbeat) -> None:
    print(made.url or made.token)
    print(f"evenbeat heartbeat: shown once. The previous URL of {name} is now invalid.", file=sys.stderr)
    if made.url:
        print(f"  at the end of a script:  curl -fsS -m 10 --retry 5 {made.url}/$?", file=sys.stderr)
    else:
        where = "no node serves the API here: `evenbeat up --listen 8629` does"
        print(f"  {where}; heartbeats go to http://HOST:PORT/v1/beat/TOKEN", file=sys.stderr)


def _problem_of(url: str, entry: Entry, client: Client, ca_file: str | None) -> str:
    """Send a line for the log, which changes no state, and look for it in the history. Empty if it is there."""
    if not url:
        return "there is no URL to test: no node serves the API here; `evenbeat up --listen 8629` does"
    if not url.startswith(("http://", "https://")):
        raise Invalid(f"{url!r} is not a URL, accepted: http://HOST:PORT/v1/beat/TOKEN", place="--test")
    text = f"a test by {user_name()}, {secrets.token_hex(4)}"
    trust = ssl.create_default_context(cafile=ca_file) if url.startswith("https") else None
    request = urllib.request.Request(f"{url.rstrip('/')}/log", text.encode(), method="POST")  # noqa: S310 - see above
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE, context=trust) as answer:  # noqa: S310
            answer.read(1)
    except HTTPError as e:
        e.close()
        return f"the URL does not work from here: {e}"
    except OSError as e:
        return f"the URL does not work from here: {getattr(e, 'reason', None) or e}"
    except ValueError as e:
        raise Invalid(str(e), place="--test") from None
    runs, _ = client.latest_records(entry, _LATEST)
    if any(run.kind is RunKind.LOG and run.output == text for run in runs):
        return ""
    return f"the URL works, but it is not the one of {entry.task.name!r} on this node"
