"""Nodes of a cluster: each contact is told by one of them, of the problems of all, also when nodes come and go."""

import asyncio
from operator import methodcaller
from pathlib import Path

from cluster_nodes import Cluster, cluster, sleeping
from message_receivers import HttpReceiver
from waiting import eventually_async

from evenbeat.core.partition_ownership import partition_of_contact
from evenbeat.model import Contact, NotifyContact
from evenbeat.testing.postgres_server import PostgresServer

CONTACTS = tuple(f"contact-{i}" for i in range(8))
TASKS = tuple(f"task-{i}" for i in range(6))


def told(receiver: HttpReceiver, kind: str) -> dict[str, list[str]]:
    """By contact: the tasks of the items of a kind that arrived, repetitions apart."""
    found: dict[str, list[str]] = {name: [] for name in CONTACTS}
    seen = set()
    for request in list(receiver.requests):
        document = request.document
        if document["message"] in seen:
            assert document["possible_repetition"]
            continue
        seen.add(document["message"])
        found[document["contact"]] += [item["task"] for item in document["items"] if item["kind"] == kind]
    return {name: sorted(tasks) for name, tasks in found.items()}


async def _scenario(c: Cluster, receiver: HttpReceiver, folder: Path) -> None:
    broken = folder / "broken"
    broken.touch()
    for name in CONTACTS:
        await c.do(methodcaller("set_contact", name, Contact(webhook=receiver.url(f"ok/{name}"))))
    notify = tuple(NotifyContact(name) for name in CONTACTS)
    script = ("sh", "-c", f"test ! -e {broken}")
    await c.add(*(sleeping(name, *script, notify=notify, gather=1_000_000) for name in TASKS))
    await c.start_worker()
    one, two = await c.start(), await c.start()
    await eventually_async(lambda: one.names and two.names, "both nodes have tasks")
    members = (one.membership.partitions, two.membership.partitions)

    def both_have_contacts() -> bool:
        return all(any(partition_of_contact(name) in member.held for name in CONTACTS) for member in members)

    await eventually_async(both_have_contacts, "both nodes have contacts")
    await c.do(lambda client: client.run_now(TASKS, wait=False))
    every = {name: list(TASKS) for name in CONTACTS}
    await eventually_async(lambda: told(receiver, "problem") == every, "each contact hears of each problem")
    c.members.remove(two)
    await two.stop()
    broken.unlink()
    await eventually_async(lambda: len(one.names) == len(TASKS), "one node has everything")
    await c.do(lambda client: client.run_now(TASKS, wait=False))
    await eventually_async(lambda: told(receiver, "recovery") == every, "each contact hears of each recovery")
    assert told(receiver, "problem") == every
    await eventually_async(lambda: not c.store.unfinished_messages(), "the ends of all messages")


def test_each_contact_is_told_by_one_node_of_the_problems_of_all(
    newest_postgres: PostgresServer, nats_url: str, tmp_path: Path
) -> None:
    async def whole(receiver: HttpReceiver) -> None:
        async with cluster(newest_postgres.create_database(), nats_url, tmp_path) as made:
            await _scenario(made, receiver, tmp_path)

    with HttpReceiver() as receiver:
        asyncio.run(whole(receiver))


async def _test_message(c: Cluster, receiver: HttpReceiver) -> None:
    await c.do(methodcaller("set_contact", "ops", Contact(webhook=receiver.url("ok/ops"))))
    await c.start()
    (outcome,) = await c.do(methodcaller("test_contact", "ops"))
    assert (outcome.kind, outcome.is_delivered, outcome.error) == ("webhook", True, "")
    (request,) = receiver.wait_for(1)
    assert (request.document["test"], request.document["contact"]) == (True, "ops")


def test_a_test_message_is_sent_by_a_node_whoever_asks(
    newest_postgres: PostgresServer, nats_url: str, tmp_path: Path
) -> None:
    async def whole(receiver: HttpReceiver) -> None:
        async with cluster(newest_postgres.create_database(), nats_url, tmp_path) as made:
            await _test_message(made, receiver)

    with HttpReceiver() as receiver:
        asyncio.run(whole(receiver))


async def _dying_node(c: Cluster, receiver: HttpReceiver) -> None:
    for name in CONTACTS:
        await c.do(methodcaller("set_contact", name, Contact(webhook=receiver.url(f"hang/{name}"))))
    await c.add(sleeping("task", "false", notify=tuple(map(NotifyContact, CONTACTS)), gather=0))
    await c.start_worker()
    one, two = await c.start(), await c.start()
    owned = two.membership.partitions.held

    def contacts_of_two() -> set[str]:
        return {name for name in CONTACTS if partition_of_contact(name) in owned}

    await eventually_async(lambda: contacts_of_two() and set(CONTACTS) - contacts_of_two(), "both nodes have contacts")
    await c.do(lambda client: client.run_now(["task"], wait=False))
    every = {name: ["task"] for name in CONTACTS}
    await eventually_async(lambda: told(receiver, "problem") == every, "each contact hears of the problem")
    lost = contacts_of_two()
    c.members.remove(two)
    await two.die()
    await eventually_async(lambda: _repeated(receiver) >= lost, "what the dead node was delivering comes again")
    assert told(receiver, "problem") == every
    assert one.names == {"task"}


def _repeated(receiver: HttpReceiver) -> set[str]:
    """The contacts that got a message marked as a possible repetition."""
    documents = [request.document for request in list(receiver.requests)]
    return {document["contact"] for document in documents if document["possible_repetition"]}


def test_what_a_dead_node_was_delivering_comes_again_and_is_marked(
    newest_postgres: PostgresServer, nats_url: str, tmp_path: Path
) -> None:
    async def whole(receiver: HttpReceiver) -> None:
        async with cluster(newest_postgres.create_database(), nats_url, tmp_path) as made:
            await _dying_node(made, receiver)

    with HttpReceiver() as receiver:
        asyncio.run(whole(receiver))
