"""`python -m evenbeat` is the `evenbeat` command."""

from evenbeat.cli.main import run

run()
