"""Output that tells which part of it one has."""


def numbered(size: int, since: int) -> bytes:
    """Bytes that tell where they are: lines of eight."""
    lines = b"".join(f"{i:07}\n".encode() for i in range(since // 8, (since + size) // 8 + 1))
    return lines[since % 8 : since % 8 + size]
