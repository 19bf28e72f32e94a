"""What a session of a coding agent leaves behind: hypotheses from what was said in it, for people to review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recollect.interfaces.hosts.transcripts import Said, read_transcript

if TYPE_CHECKING:
    from recollect.interfaces.client import Recollect
    from recollect.interfaces.hosts.hook import HookRequest

AT_ONCE = 100


def learned(request: HookRequest, given: Mapping[str, Any], project: str) -> dict[str, Any]:
    """Read the transcript on from where it was read to, and propose what is worth remembering."""
    from recollect.interfaces.hosts.hook import opened
    from recollect.interfaces.hosts.places import users_store
    from recollect.settings import load

    path, session = given.get("transcript_path"), given.get("session_id") or given.get("conversation_id")
    if not isinstance(path, str) or not isinstance(session, str) or not path or not session:
        return {}
    said = read_transcript(Path(path).expanduser())
    if load(users_store(request.store)).language_model.provider == "none":  # the rules read what users say
        said = [one for one in said if one.role == "user"]
    if not said:
        return {}
    with opened(request.store, create=True) as mem:
        made = _proposed(mem, f"{request.host}:{session}"[:255], project, said)
    if not made or request.host == "cursor":
        return {}
    noun = "hypothesis" if made == 1 else "hypotheses"
    return {"systemMessage": f"Recollect: {made} new {noun} from this session; `recollect review list` shows them"}


def _proposed(mem: Recollect, session: str, project: str, said: Sequence[Said]) -> int:
    """The agent is the project's own, so that what is known is compared within it."""
    mem.call("session.add", id=session, project=project, agent=project, title="Coding session", on_existing="return")
    for start in range(0, len(said), AT_ONCE):
        messages = [{"role": one.role, "text": one.text, "otid": one.id} for one in said[start : start + AT_ONCE]]
        mem.call("message.add_many", messages=messages, session=session)
    made = 0
    while True:
        reply = mem.call("session.extract", id=session)
        made += sum(one.id is not None for one in reply.proposals)
        if not reply.remaining or not reply.read:
            return made
