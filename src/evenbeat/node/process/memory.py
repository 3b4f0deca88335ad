"""Give memory back to the system: what reading a large file took is not needed again for days."""

import ctypes


def give_back_memory() -> None:
    """Have the C library return freed memory, which it otherwise keeps; not every C library can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
