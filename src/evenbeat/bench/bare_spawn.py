"""The baseline of `evenbeat bench spawn`: spawn, read the output, reap. Nothing is timed, checked, sent or kept."""

import os
import select
import sys


def run_processes(program: str, count: int, in_flight: int) -> None:
    """Run a command many times, several at the same time."""
    poll = select.epoll()
    environment = dict(os.environb)
    children: dict[int, int] = {}
    started = 0
    while started < count or children:
        while started < count and len(children) < in_flight:
            reader, writer = os.pipe()
            output = ((os.POSIX_SPAWN_DUP2, writer, 1), (os.POSIX_SPAWN_DUP2, writer, 2))
            children[reader] = os.posix_spawn(program, (program,), environment, file_actions=output, setpgroup=0)
            os.close(writer)
            poll.register(reader, select.EPOLLIN)
            started += 1
        for reader, event in poll.poll():
            size = len(os.read(reader, 65536))
            if size == 0 or (event & select.EPOLLHUP and size < 65536):
                poll.unregister(reader)
                os.close(reader)
                os.waitpid(children.pop(reader), 0)
    poll.close()


for line in sys.stdin:
    program, count = line.split()
    run_processes(program, int(count), int(sys.argv[1]))
    print("done", flush=True)
