"""`App.aio`: the methods of an App as coroutines, for code on an event loop, that of the node itself included."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from evenbeat.program.problem_methods import ProblemMethods
from evenbeat.program.task_methods import TaskMethods

P = ParamSpec("P")
R = TypeVar("R")


def _awaitable(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate["AwaitableMethods", P], Coroutine[Any, Any, R]]:
    @wraps(method)
    async def call(self: "AwaitableMethods", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self._app, *args, **kwargs)

    return call


class AwaitableMethods:
    """Each method runs in a thread, so that the loop goes on meanwhile."""

    def __init__(self, app: TaskMethods) -> None:
        self._app = app

    create = _awaitable(TaskMethods.create)
    later = _awaitable(TaskMethods.later)
    read = _awaitable(TaskMethods.read)
    update = _awaitable(TaskMethods.update)
    delete = _awaitable(TaskMethods.delete)
    list = _awaitable(TaskMethods.list)
    pause = _awaitable(TaskMethods.pause)
    resume = _awaitable(TaskMethods.resume)
    force = _awaitable(TaskMethods.force)
    stop_run = _awaitable(TaskMethods.stop_run)
    cursor = _awaitable(TaskMethods.cursor)
    set_cursor = _awaitable(TaskMethods.set_cursor)
    result = _awaitable(TaskMethods.result)
    history = _awaitable(TaskMethods.history)
    set_slots = _awaitable(TaskMethods.set_slots)
    set_limit = _awaitable(TaskMethods.set_limit)
    problems = _awaitable(ProblemMethods.problems)
    why = _awaitable(ProblemMethods.why)
    acknowledge = _awaitable(ProblemMethods.acknowledge)
    comment = _awaitable(ProblemMethods.comment)
    contacts = _awaitable(ProblemMethods.contacts)
    set_contact = _awaitable(ProblemMethods.set_contact)
    remove_contact = _awaitable(ProblemMethods.remove_contact)
    downtimes = _awaitable(ProblemMethods.downtimes)
    downtime = _awaitable(ProblemMethods.downtime)
    end_downtime = _awaitable(ProblemMethods.end_downtime)
