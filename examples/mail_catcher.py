"""A mail server for trying things out: it prints each mail that it gets, and delivers none.

`python3 examples/mail_catcher.py` listens on port 2525 of this machine; another port may follow. It needs nothing but
Python. docs/how-to/notifications.md sends it the first message of a node.
"""

import asyncio
import sys
from contextlib import suppress
from email import message_from_bytes, policy
from typing import Final

PORT: Final = 2525
SHOWN: Final = ("From", "To", "Subject")
LARGEST: Final = 10 << 20
"""Bytes of a mail; a longer one is refused."""
GREETING: Final = "220 mail catcher"
REFUSED: Final = "552 the mail is too large"
ANSWERS: Final = {
    "HELO": "250 mail catcher",
    "EHLO": f"250-mail catcher\r\n250-8BITMIME\r\n250 SIZE {LARGEST}",
    "MAIL": "250 ok",
    "RCPT": "250 ok",
    "RSET": "250 ok",
    "NOOP": "250 ok",
    "DATA": "354 the mail, then a dot on a line of its own",
    "QUIT": "221 goodbye",
}


async def main(port: int) -> None:
    """Catch mails until Ctrl-C."""
    server = await asyncio.start_server(converse, "127.0.0.1", port)
    where = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"Waiting for mail on smtp://localhost:{where}; Ctrl-C ends it.\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one client's commands until it says goodbye."""
    answer, verb = GREETING, ""
    try:
        while True:
            writer.write(f"{answer}\r\n".encode())
            await writer.drain()
            if verb == "QUIT" or not (line := await reader.readline()):
                break
            verb = line.decode("ascii", "replace").strip()[:4].upper()
            answer = ANSWERS.get(verb, "502 not known here")
            if verb == "DATA":
                writer.write(f"{answer}\r\n".encode())
                await writer.drain()
                mail = await read_mail(reader)
                answer = "250 printed" if len(mail) <= LARGEST else REFUSED
                if len(mail) <= LARGEST:
                    show(mail)
    except (ConnectionError, ValueError):
        pass  # the client broke off, or sent a line without end
    finally:
        writer.close()


async def read_mail(reader: asyncio.StreamReader) -> bytes:
    """All lines up to the dot; of a mail that is too large no more than is needed to see that."""
    mail = bytearray()
    while (line := await reader.readline()).rstrip(b"\r\n") != b".":
        if not line:
            raise ConnectionError("the mail has no end")
        if len(mail) <= LARGEST:
            mail += line[1:] if line.startswith(b".") else line
    return bytes(mail)


def show(mail: bytes) -> None:
    """Print the mail as its reader would see it."""
    message = message_from_bytes(mail, policy=policy.default)
    body = message.get_body(("plain",))
    head = [f"{name}: {message[name]}" for name in SHOWN]
    text = "" if body is None else body.get_content()
    sys.stdout.write("\n".join(["", "-" * 78, *head, "", *text.splitlines(), ""]))
    sys.stdout.flush()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else PORT))
