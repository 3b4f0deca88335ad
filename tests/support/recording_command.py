"""What every task of the crash tests runs: it writes down that it began and ended, and what it saw meanwhile.

A line is one write to a file opened for appending, so the order of the lines is the order of events. Beside the log
there is a lock for each task, and as many for each limit as it allows. The kernel lets go of a lock when its holder is
gone, however it went, so a run that meets a lock that is held has met another run: also one that nobody reports about.
"""

import fcntl
import os
import sys
import time

_KILL = 1 << 8
"""The ninth signal, in the masks of /proc."""
_EXITING = 0x4
"""The kernel's PF_EXITING."""


def main() -> None:
    """`recording_command.py FOLDER SECONDS STATUS [WHAT]...`: a WHAT is `fork`, or `KEY=MOST` to watch a limit.

    STATUS `sick`: well for eight seconds, then for eight seconds not, in two ways. `tries`: well at its second attempt.
    """
    folder, seconds, status, *rest = sys.argv[1:]
    name, nominal = os.environ["EVENBEAT_NAME"], os.environ["EVENBEAT_NOMINAL"]
    log = os.open(f"{folder}/log", os.O_WRONLY | os.O_APPEND)

    def write(*words: str) -> None:
        line = " ".join([words[0], name, nominal, str(os.getpid()), str(time.time_ns() // 1_000), *words[1:]])
        os.write(log, line.encode() + b"\n")

    write("start")
    locks = [take_one([f"{folder}/lock {name}"])]
    if locks[0] is None:
        write("overlap")
    for key, most in [word.split("=") for word in rest if "=" in word]:
        locks.append(take_one([f"{folder}/lock {key} {i}" for i in range(int(most))]))
        if locks[-1] is None:
            write("crowded", key)
    # A run may start processes of its own: they are in its group, and hold its locks as long as they live.
    if "fork" in rest and os.fork() == 0:
        for lock in locks:
            if lock is not None:
                sign(lock)
        time.sleep(60)
        os._exit(0)
    time.sleep(float(seconds))
    write("end")
    if status == "tries":
        os._exit(75 if os.environ["EVENBEAT_ATTEMPT"] == "1" else 0)
    now = int(time.time())
    os._exit((now // 8 % 2) * (1 + now % 2) if status == "sick" else int(status))


def take_one(paths: list[str]) -> int | None:
    """Take one of these locks, for as long as this process or a child of it lives; None if there is none to take."""
    files = [os.open(path, os.O_RDWR | os.O_CREAT, 0o600) for path in paths]
    for _ in range(20):
        for file in files:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not is_dying(int(os.pread(file, 20, 0) or 0)):
                    continue
                # It was killed and does nothing any more, but its end takes the kernel a moment.
                fcntl.flock(file, fcntl.LOCK_EX)
            sign(file)
            return file
        time.sleep(0.001)
    return None


def sign(lock: int) -> None:
    """Whoever meets it shall know whom it met."""
    os.pwrite(lock, b"%-20d" % os.getpid(), 0)


def is_dying(process: int) -> bool:
    """Has it been killed, so that it will not run another instruction of its own?"""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123 - a witness starts fast
            state, *fields = file.read().rpartition(b")")[2].split()
        with open(f"/proc/{process}/status", "rb") as file:  # noqa: PTH123
            masks = [int(line.split()[1], 16) for line in file if line.startswith((b"SigPnd", b"ShdPnd"))]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in b"ZX" or bool(int(fields[5]) & _EXITING) or any(mask & _KILL for mask in masks)


if __name__ == "__main__":
    main()
