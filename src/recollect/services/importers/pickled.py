"""The data in a pickle, read without running any of it.

Qdrant's local storage has its points pickled. Unpickling what others wrote would run whatever they put in, so only the
data are read: an object becomes the dictionary of its fields, a call becomes its arguments, and nothing is imported or
called. Lists and dictionaries that are referred to twice are refused: they could refer to themselves.
"""

from __future__ import annotations

import pickletools

_CONSTANTS: dict[str, object] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, type] = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple, "EMPTY_SET": list}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_MARK = object()


def pickled_data(raw: bytes) -> object:
    """Raises ValueError for what is not a pickle of plain data."""
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(raw):
            if opcode.name == "STOP":
                return machine.stack.pop()
            machine.step(opcode.name, argument)
    except (IndexError, KeyError, TypeError, AttributeError):
        raise ValueError("it is not a pickle of plain data") from None
    raise ValueError("it was cut short")


class _Machine:
    """The stack of a pickle, with the operations that only put data on it."""

    def __init__(self) -> None:
        self.stack: list[object] = []
        self._memo: list[object] = []

    def step(self, name: str, argument: object) -> None:
        if name in ("PROTO", "FRAME"):
            return
        if name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            self.stack.append(_EMPTY[name]())
        elif name == "MARK":
            self.stack.append(_MARK)
        elif name == "MEMOIZE":
            self._memo.append(self.stack[-1])
        elif name in ("BINGET", "LONG_BINGET"):
            self._refer(argument)
        elif name in ("APPEND", "APPENDS", "ADDITEMS", "SETITEM", "SETITEMS"):
            self._fill(name)
        elif name == "TUPLE" or name in _TUPLES:
            self.stack.append(tuple(self._popped(_TUPLES.get(name))))
        elif name in ("STACK_GLOBAL", "NEWOBJ", "REDUCE", "BUILD"):
            self._object(name)
        elif isinstance(argument, str | int | float | bytes) and name != "GLOBAL":
            self.stack.append(argument)
        else:
            raise ValueError(f"it has more than plain data ({name})")

    def _refer(self, number: object) -> None:
        found = self._memo[number] if isinstance(number, int) else None
        if isinstance(found, list | dict):
            raise ValueError("it refers to a list twice")
        self.stack.append(found)

    def _popped(self, count: int | None) -> list[object]:
        """The last so many, or all after the mark."""
        if count is None:
            count = self.stack[::-1].index(_MARK)
            found = self.stack[len(self.stack) - count :]
            del self.stack[len(self.stack) - count - 1 :]
            return found
        found = self.stack[-count:]
        del self.stack[-count:]
        return found

    def _fill(self, name: str) -> None:
        found = self._popped({"APPEND": 1, "SETITEM": 2}.get(name))
        target = self.stack[-1]
        if isinstance(target, list):
            target.extend(found)
        elif isinstance(target, dict):
            target.update(zip(found[::2], found[1::2], strict=True))
        else:
            raise TypeError

    def _object(self, name: str) -> None:
        second, first = self.stack.pop(), self.stack[-1]
        if name == "BUILD":
            if isinstance(first, dict) and isinstance(second, dict):
                fields = second.get("__dict__", second)  # as pydantic has it
                first.update(fields if isinstance(fields, dict) else {})
            return
        self.stack[-1] = {"STACK_GLOBAL": f"{first}.{second}", "NEWOBJ": {}}.get(name, second)
