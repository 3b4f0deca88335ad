"""Functions of a program, as tests declare them."""


def tidy() -> None: ...


def resize(path: str, width: int = 100) -> str:
    return f"{path} {width}"


async def ship(order: int) -> None: ...


def ping() -> int:
    return 0
