"""Replies about agents for people: messages, sessions, blocks, tools, states, workspaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from recollect.services.agents.blocks import BlockHistory, BlockPage
from recollect.services.agents.states import StatePage
from recollect.services.agents.tools import ToolPage
from recollect.services.conversations.message_revisions import MessageHistory
from recollect.services.conversations.message_search import SearchMessagesReply
from recollect.services.conversations.messages import MessagePage, MessageView
from recollect.services.conversations.prompts import Prompt
from recollect.services.conversations.sessions import SessionPage, SessionView
from recollect.services.workspaces.file_reading import FileContent
from recollect.services.workspaces.files import FilePage, WorkspacePage
from recollect.services.workspaces.folder_sync import PullReply
from recollect.services.workspaces.snapshots import DiffReply, RestoreSnapshotReply, SnapshotPage

if TYPE_CHECKING:
    from datetime import datetime

    from recollect.interfaces.cli.render.replies import Renderer

CHANGES = {"added": "green", "removed": "red", "changed": "yellow"}


def _table(
    renderer: Renderer, titles: Sequence[str], rows: Iterable[Sequence[object]], next: str | None = None
) -> None:
    table = Table(*titles, box=None, header_style="dim")
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    renderer.console.print(table)
    if next:
        renderer.console.print(f"[dim]more with --after {next}[/]")


def _message(renderer: Renderer, message: MessageView) -> None:
    who = escape(message.name or message.role)
    said = message.text if message.text is not None else f"{len(message.content) or 'no'} parts"
    renderer.console.print(
        f"[dim]{renderer.when(message.created_at)}[/] [bold]{who}[/]: {escape(said)}  [dim]{message.id}[/]"
    )


def messages(renderer: Renderer, reply: MessagePage) -> None:
    for message in reply.messages:
        _message(renderer, message)
    if reply.next:
        renderer.console.print(f"[dim]more with --after {reply.next}[/]")


def found(renderer: Renderer, reply: SearchMessagesReply) -> None:
    for hit in reply.hits:
        _message(renderer, hit)
    if not reply.hits:
        renderer.console.print("Nothing found.")
    renderer.notes(reply.notes)


def message_history(renderer: Renderer, reply: MessageHistory) -> None:
    rows = [
        (one.number, renderer.when(one.held_from), _short(one.text or ""), one.why or "", one.by or "")
        for one in reply.entries
    ]
    _table(renderer, ("version", "since", "text", "changed because", "by"), rows)


def sessions(renderer: Renderer, reply: SessionPage) -> None:
    rows = [
        (
            renderer.when(one.started_at),
            one.type,
            one.title,
            one.messages,
            _status(one),
            one.id,
        )
        for one in reply.sessions
    ]
    _table(renderer, ("started", "type", "title", "messages", "", "id"), rows, reply.next)


def _status(session: SessionView) -> str:
    if session.cold_at is not None:
        return "in cold storage"
    return "archived" if session.archived else "ended" if session.ended_at else ""


def prompt(renderer: Renderer, reply: Prompt) -> None:
    renderer.console.print(escape(reply.text), soft_wrap=True)


def blocks(renderer: Renderer, reply: BlockPage) -> None:
    rows = [
        (one.label, f"{one.characters}/{one.limit}", _short(one.value), ", ".join(one.agents), one.id)
        for one in reply.blocks
    ]
    _table(renderer, ("label", "size", "value", "agents", "id"), rows, reply.next)


def block_history(renderer: Renderer, reply: BlockHistory) -> None:
    rows = [(one.number, renderer.when(one.held_from), one.by or "", _short(one.value)) for one in reply.states]
    _table(renderer, ("version", "from", "by", "value"), rows)


def tools(renderer: Renderer, reply: ToolPage) -> None:
    rows = [(one.name, _short(one.description), ", ".join(one.agents), one.id) for one in reply.tools]
    _table(renderer, ("name", "description", "agents", "id"), rows, reply.next)


def states(renderer: Renderer, reply: StatePage) -> None:
    rows = [
        (one.agent, one.session or "", one.version, renderer.when(one.saved_at), _until(renderer, one.expires_at))
        for one in reply.states
    ]
    _table(renderer, ("agent", "session", "version", "saved", "expires"), rows, reply.next)


def _until(renderer: Renderer, moment: datetime | None) -> str:
    return renderer.when(moment) if moment else "never"


def workspaces(renderer: Renderer, reply: WorkspacePage) -> None:
    rows = [(one.name, one.agent, one.files, one.bytes, one.snapshots, one.id) for one in reply.workspaces]
    _table(renderer, ("name", "agent", "files", "bytes", "snapshots", "id"), rows, reply.next)


def files(renderer: Renderer, reply: FilePage) -> None:
    rows = [(one.path, one.bytes, one.version, renderer.when(one.changed_at)) for one in reply.files]
    _table(renderer, ("path", "bytes", "version", "changed"), rows, reply.next)


def content(renderer: Renderer, reply: FileContent) -> None:
    shown = reply.text if reply.text is not None else reply.base64 or ""
    renderer.console.print(escape(shown), soft_wrap=True, end="" if shown.endswith("\n") else "\n")


def snapshots(renderer: Renderer, reply: SnapshotPage) -> None:
    rows = [(renderer.when(one.taken_at), one.label, one.files, one.bytes, one.id) for one in reply.snapshots]
    _table(renderer, ("taken", "label", "files", "bytes", "id"), rows, reply.next)


def compared(renderer: Renderer, reply: DiffReply | RestoreSnapshotReply) -> None:
    if not reply.files:
        renderer.console.print("No differences.")
    for one in reply.files:
        renderer.console.print(f"[{CHANGES[one.change]}]{one.change:8}[/] {escape(one.path)}")
        if one.diff:
            renderer.console.print(escape(one.diff), soft_wrap=True)


def pulled(renderer: Renderer, reply: PullReply) -> None:
    renderer.console.print(
        f"{reply.added} added, {reply.changed} changed, {reply.unchanged} unchanged, {reply.removed} removed"
    )
    for one in reply.left_out:
        renderer.console.print(f"[yellow]skipped[/] {escape(one.path)}: {escape(one.why)}")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"


RENDERERS: dict[type, Callable[[Renderer, Any], None]] = {
    MessagePage: messages,
    SearchMessagesReply: found,
    MessageHistory: message_history,
    SessionPage: sessions,
    Prompt: prompt,
    BlockPage: blocks,
    BlockHistory: block_history,
    ToolPage: tools,
    StatePage: states,
    WorkspacePage: workspaces,
    FilePage: files,
    FileContent: content,
    SnapshotPage: snapshots,
    DiffReply: compared,
    RestoreSnapshotReply: compared,
    PullReply: pulled,
}
