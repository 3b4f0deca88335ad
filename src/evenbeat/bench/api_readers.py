"""The readers of `evenbeat bench node --with-api-load`: a fixed rate of requests, over a few connections.

`python -m evenbeat.bench.api_readers PORT RATE SECONDS` prints how many were answered, and how many of those with 200.
EVENBEAT_TOKEN has the token.
"""

import os
import selectors
import socket
import sys
import time

_CONNECTIONS = 8
_PATHS = ("/v1/status", "/v1/tasks?limit=20", "/v1/tasks/task%2042", "/v1/tasks/task%2042/history", "/readyz")


def generate_requests(port: int, rate: int, seconds: float) -> tuple[int, int]:
    """Send requests in turn, on time; connections that still wait for an answer are skipped."""
    head = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {os.environ['EVENBEAT_TOKEN']}\r\n\r\n"
    requests = [f"GET {path} HTTP/1.1\r\n{head}".encode() for path in _PATHS]
    selector = selectors.DefaultSelector()
    idle: list[socket.socket] = []
    for _ in range(_CONNECTIONS):
        idle.append(socket.create_connection(("127.0.0.1", port)))
        selector.register(idle[-1], selectors.EVENT_READ)
    received: dict[socket.socket, bytes] = {}
    begin, asked, answered, good = time.monotonic(), 0, 0, 0
    while (now := time.monotonic()) < begin + seconds:
        due = int((now - begin) * rate)
        while idle and asked < due:
            connection = idle.pop()
            connection.sendall(requests[asked % len(requests)])
            received[connection] = b""
            asked += 1
        for key, _ in selector.select(0.001 if idle else 0.05):
            waiting = key.fileobj
            assert isinstance(waiting, socket.socket)
            received[waiting] += waiting.recv(1 << 20)
            if _is_whole(received[waiting]):
                answered += 1
                good += received[waiting].startswith(b"HTTP/1.1 200")
                idle.append(waiting)
    return answered, good


def _is_whole(answer: bytes) -> bool:
    head, found, body = answer.partition(b"\r\n\r\n")
    if not found:
        return False
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return len(body) >= int(lengths[0].split(b":")[1]) if lengths else True


if __name__ == "__main__":
    os.nice(10)  # readers are elsewhere, as a rule: what they cost themselves should not count
    print(*generate_requests(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
