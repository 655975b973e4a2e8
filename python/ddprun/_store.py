"""The store of a communicator's job: small values under names."""
import ctypes
from typing import TYPE_CHECKING, Optional, Union

from ._library import TimedOut, library

if TYPE_CHECKING:
    from ._comm import Comm

Value = Union[bytes, str]


def _bytes(value: Value) -> bytes:
    return value.encode() if isinstance(value, str) else value


class Store:
    """Keys of up to 8 KiB, values of up to 8 MiB, which all ranks see and which
    are dropped when the round ends. Strings are stored as UTF-8."""

    def __init__(self, comm: "Comm") -> None:
        self._comm = comm

    def set(self, key: str, value: Value) -> None:
        """Sets a value."""
        data = _bytes(value)
        library().call("store_set", self._comm._c, key.encode(), data,
                       len(data))

    def get(self, key: str, timeout: Optional[float] = None) -> bytes:
        """The value of a key, which is waited for: timeout seconds (0: not at
        all, None: without a limit). TimedOut: it was not set."""
        limit = -1 if timeout is None else int(timeout * 1000)
        size = 256
        while True:
            room = ctypes.create_string_buffer(size)
            have = library().call("store_get", self._comm._c, key.encode(),
                                  room, size, limit)
            if have <= size:
                return room.raw[:have]
            size = have

    def try_get(self, key: str) -> Optional[bytes]:
        """The value of a key, or None. Does not wait."""
        try:
            return self.get(key, 0)
        except TimedOut:
            return None

    def add(self, key: str, delta: int = 1) -> int:
        """Adds to the decimal number of a key, 0 if it is missing; returns the
        sum."""
        total = ctypes.c_int64()
        library().call("store_add", self._comm._c, key.encode(), delta,
                       ctypes.byref(total))
        return total.value

    def compare_set(self, key: str, expected: Value, desired: Value) -> bool:
        """Sets a key to desired if it holds expected; empty: if it is missing.
        Whether it holds desired now."""
        old, new = _bytes(expected), _bytes(desired)
        return library().call("store_compare_set", self._comm._c, key.encode(),
                              old, len(old), new, len(new)) > 0

    def append(self, key: str, value: Value) -> None:
        """Appends to a value, which is made if it is missing."""
        data = _bytes(value)
        library().call("store_append", self._comm._c, key.encode(), data,
                       len(data))

    def delete(self, key: str) -> bool:
        """Deletes a key; whether it existed."""
        return library().call("store_delete", self._comm._c,
                              key.encode()) > 0
