"""Give memory back to the system: what reading a large file took is not needed again for days."""

import ctypes


def give_back_memory() -> None:
    """The C library keeps what was freed among what is in use, until somebody asks; not every one can be asked."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
