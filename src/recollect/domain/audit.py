"""Who did what to which memory, when, and whether it worked. Holds ids and hashes, never stored text.

Entries are sealed in batches: a seal holds the hash of its entries and of the seal before it, so the seals are a chain.
Changing, deleting, inserting or swapping a sealed entry breaks its seal; taking seals off the end is seen by whoever
kept the last seal's hash elsewhere (an anchor).
"""

from __future__ import annotations

import hashlib
from typing import ClassVar, Literal

from pydantic import Field

from recollect.domain.memory import canonical
from recollect.domain.record import Id, Json, Moment, Record, Reference, Shape, Text, Unique, now

AccessOperation = Literal["create", "read", "update", "delete", "search", "view"]
"""`view` is what a person read or searched in the console: it is logged, but is no use of a memory."""


class AccessLog(Record):
    shape: ClassVar[Shape] = Shape(
        "access_log",
        references={"organization_id": Reference("organization")},
        indexes=(
            ("memory_id",),
            ("session_id",),
            ("agent_id", "id"),
            ("timestamp",),
            ("operation", "id"),
            ("success", "id"),
            ("seal",),
        ),
        unset=("seal",),
        encrypted_texts=frozenset({"request_data"}),
    )

    memory_id: Id | None = None
    session_id: Id | None = None
    agent_id: Id | None = None
    actor_id: Id | None = None
    operation: AccessOperation
    action: Text = ""
    timestamp: Moment = Field(default_factory=now)
    request_data: Json = Field(default_factory=dict)
    success: bool = True
    error_message: Text | None = None
    ip_address: Text | None = None
    seal: int | None = None
    salt: Text | None = None
    """Chance that is hashed with the entry, and deleted when whom it names is erased: then nobody can find out by trial
    whom the hash was made for."""


class Erasure(Record):
    """Something was deleted for good, and its traces on disk are still to be overwritten. Has the id of what it was."""

    shape: ClassVar[Shape] = Shape("erasure", references={"organization_id": Reference("organization")})


class Seal(Record):
    """The hash of a batch of entries of the access log and of the seal before."""

    shape: ClassVar[Shape] = Shape(
        "seal", references={"organization_id": Reference("organization")}, unique=(Unique(("number",)),)
    )

    number: int = Field(ge=1)
    previous: Text
    digest: Text
    entries: int = Field(ge=1)


def entry_hash(entry: AccessLog) -> str:
    """What a seal is made of; it stands for an entry that was moved to cold storage.

    Entries from before salts were hashed without one.
    """
    unsealed = entry.model_dump(mode="json", exclude={"seal"} if entry.salt is not None else {"seal", "salt"})
    return hashlib.sha256(canonical(unsealed)).hexdigest()


def seal_digest(number: int, previous: str, hashes: list[str]) -> str:
    return hashlib.sha256(canonical([number, previous, hashes])).hexdigest()


FORMER_NAMES: dict[str, tuple[str, ...]] = {
    "user.add": ("add user", "add_user"),
    "agent.add": ("add agent", "add_agent"),
    "session.add": ("add session", "add_session"),
    "project.add": ("add project", "add_project"),
    **{f"{type}.list": ("parties",) for type in ("user", "agent", "session", "project")},
    **{f"{type}.remove": ("remove",) for type in ("user", "agent", "session", "project")},
    **{f"{type}.restore": ("unremove",) for type in ("user", "agent", "session", "project")},
    "organization.remove": ("erase_organization",),
    "run.list": ("runs",),
    "citation.list": ("citations",),
    "remember": ("remember again",),
    "revise": ("revised", "retag"),
    "promote": ("promoted",),
    "demote": ("demoted",),
    "archive": ("archived",),
    "forget": ("forgotten",),
    "restore": ("restored",),
    "prune": ("forgotten",),
    "roll_back": ("archived",),
    "import_": ("import",),
    "pattern.learn": ("learn",),
    "pattern.apply": ("apply",),
    "pattern.report": ("report",),
    "pattern.show": ("show pattern",),
    "summary.show": ("show summary",),
    "summary.undo": ("undo summary",),
    "run.start": ("start run",),
    "run.claim": ("claim",),
    "run.release": ("release",),
    "run.propose": ("propose",),
    "run.record": ("record",),
    "run.finish": ("run completed",),
    "run.fail": ("run failed",),
    "run.pause": ("pause run",),
    "run.resume": ("resume run",),
    "run.cancel": ("cancel run",),
    "run.fork": ("fork run",),
    "run.rewind": ("rewind run",),
    "run.settle": ("settle did_not_happen", "settle happened", "settle abandon"),
    "run.remove": ("remove run",),
    "session.revise": ("revise session",),
    "session.end": ("end session",),
    "session.archive": ("archive session",),
    "session.unarchive": ("unarchive session",),
    "message.add": ("add messages",),
    "message.add_many": ("add messages",),
    "message.remove": ("remove message",),
    "message.pop": ("pop message",),
    "message.clear": ("clear messages",),
    "agent.revise": ("revise agent",),
    "agent.in_context": ("in context",),
    "agent.pause": ("paused agent",),
    "agent.activate": ("active agent",),
    "agent.retire": ("retired agent",),
    "block.add": ("add block",),
    "block.write": ("write block",),
    "block.append": ("append block",),
    "block.replace": ("replace in block",),
    "block.revise": ("revise block",),
    "block.remove": ("remove block",),
    "block.attach": ("attach block",),
    "block.detach": ("detach block",),
    "tool.add": ("add tool",),
    "tool.revise": ("revise tool",),
    "tool.remove": ("remove tool",),
    "tool.attach": ("attach tool",),
    "tool.detach": ("detach tool",),
    "state.save": ("save state",),
    "state.drop": ("drop state",),
    "workspace.add": ("add workspace",),
    "workspace.erase": ("drop workspace", "workspace.drop"),
    "workspace.write": ("write file",),
    "workspace.remove_file": ("remove files",),
    "workspace.move": ("move files",),
    "workspace.pull": ("pull files",),
    "workspace.snapshot": ("snapshot",),
    "workspace.restore": ("restore snapshot",),
    "workspace.prune": ("prune snapshots",),
}
"""What entries of each operation were called before all were called by the operation. They are sealed: they stay so."""


def names_of(asked: str) -> tuple[str, ...]:
    """Every name an operation has had in the log, whichever of them is asked for."""
    today = (name for name, former in FORMER_NAMES.items() if asked in former)
    return tuple(dict.fromkeys([asked, *FORMER_NAMES.get(asked, ()), *today]))
