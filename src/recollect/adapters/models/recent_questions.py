"""The last questions that were embedded: who asks the same again does not wait for the model.

Promise: never more than so many questions and so many bytes; the arrays are read-only, because everyone who asks the
same gets the same; threads may share it. Questions themselves are not kept, only a keyed hash of each, with a key of
the process; `forget` drops all, also what was asked before it and is answered after.
Proof: `tests/adapters/models/test_recent_questions.py`.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from recollect.ports.models import Vectors

Answer = tuple[Vectors, ...]
MOST_BYTES = 16 * 2**20
"""Of a question of 15 tokens 25 kB are kept; the longest takes 390 kB."""


class RecentQuestions:
    def __init__(self, most: int, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._answers: OrderedDict[bytes, Answer] = OrderedDict()
        self._bytes = 0
        self._times_forgotten = 0
        self._changing = Lock()
        self._key = secrets.token_bytes(16)

    def answer(self, question: str, embed: Callable[[str], Answer]) -> Answer:
        """What `embed` gives for the question, or gave when it was asked before."""
        name = hashlib.blake2b(question.encode("utf-8", "surrogatepass"), digest_size=16, key=self._key).digest()
        with self._changing:
            known = self._answers.get(name)
            if known is not None:
                self._answers.move_to_end(name)
                return known
            times_forgotten = self._times_forgotten
        made = embed(question)  # not under the lock: others ask meanwhile, and two who ask the same may both do it
        for array in made:
            array.flags.writeable = False
        with self._changing:
            if times_forgotten == self._times_forgotten:
                self._keep(name, made)
        return made

    def forget(self) -> None:
        with self._changing:
            self._times_forgotten += 1
            self._answers.clear()
            self._bytes = 0

    def _keep(self, name: bytes, made: Answer) -> None:
        before = self._answers.pop(name, ())
        self._answers[name] = made
        self._bytes += _size(made) - _size(before)
        while self._answers and (len(self._answers) > self._most or self._bytes > self._most_bytes):
            _, oldest = self._answers.popitem(last=False)
            self._bytes -= _size(oldest)


def _size(answer: Answer) -> int:
    return sum(array.nbytes for array in answer)
