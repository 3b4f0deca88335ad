"""The baseline of `evenbeat bench spawn`: spawn, read the output, reap. Nothing is timed, checked, sent or kept."""

import os
import select
import sys
from collections.abc import Callable


def run_processes(command: list[str], count: int, in_flight: int, ended: Callable[[], None] = lambda: None) -> None:
    """Run a command many times, several at the same time; call `ended` after each run."""
    poll = select.epoll()
    environment = dict(os.environb)
    children: dict[int, int] = {}
    started = 0
    while started < count or children:
        while started < count and len(children) < in_flight:
            reader, writer = os.pipe()
            output = ((os.POSIX_SPAWN_DUP2, writer, 1), (os.POSIX_SPAWN_DUP2, writer, 2))
            children[reader] = os.posix_spawn(command[0], command, environment, file_actions=output, setpgroup=0)
            os.close(writer)
            poll.register(reader, select.EPOLLIN)
            started += 1
        for reader, event in poll.poll():
            size = len(os.read(reader, 65536))
            if size == 0 or (event & select.EPOLLHUP and size < 65536):
                poll.unregister(reader)
                os.close(reader)
                os.waitpid(children.pop(reader), 0)
                ended()
    poll.close()


if __name__ == "__main__":
    for line in sys.stdin:
        program, times = line.split()
        run_processes([program], int(times), int(sys.argv[1]))
        print("done", flush=True)
