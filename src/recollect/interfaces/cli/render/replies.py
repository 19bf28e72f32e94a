"""Replies for people: tables and a little colour; plain text when the output is not a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from recollect.interfaces.cli.commands import Program
from recollect.services.requests import Reply

if TYPE_CHECKING:
    from pydantic import BaseModel

    from recollect.app.config_show import SettingsView
    from recollect.app.key_changes import NewKey, StoreKey
    from recollect.catalogue import Operation
    from recollect.services.access.keys import KeyPage
    from recollect.services.access.projects import ProjectPage
    from recollect.services.access.users import UserPage
    from recollect.services.admin.activity import Activity
    from recollect.services.admin.audit import LogPage
    from recollect.services.admin.copy import CopyReply
    from recollect.services.admin.maintenance import Diagnosis, ProblemView, Stats, VerifyReply
    from recollect.services.admin.partitions import PartitionsReply
    from recollect.services.admin.removal import Removal
    from recollect.services.agents.agents import AgentPage
    from recollect.services.memories.lifecycle import History
    from recollect.services.memories.revise import Receipt
    from recollect.services.recall.browse import MemoryPage, MemoryView
    from recollect.services.recall.context import Context
    from recollect.services.recall.recall import RecallReply
    from recollect.services.recall.user_sql import SqlReply
    from recollect.services.recall.why_not import WhyNot

COLOURS = {"hypothesis": "yellow", "verified": "green", "published": "bold green", "archived": "dim"}
STATES = {"holds": "green", "claimed": "yellow", "broken": "red", "unreachable": "yellow", "unchecked": "dim"}
LISTED = 20
INTERNAL = {
    "content_hash",
    "created",
    "identity",
    "is_deleted",
    "masked",
    "organization_id",
    "seq",
}  # shown by --json alone


class Renderer:
    def __init__(self, timezone: str | None = "UTC", console: Console | None = None, *, verbose: bool = False) -> None:
        """Without a time zone, times are shown in the zone that they have. Of what was written, all is shown with
        `verbose`, and one line without."""
        self.verbose = verbose
        self._zone = ZoneInfo(timezone) if timezone is not None else None
        self.console = console or _console()

    def show(self, operation: Operation, reply: BaseModel) -> None:
        if not self.verbose and self._is_receipt(operation, reply):
            self._receipt_line(operation, reply)
        else:
            self._show(reply)
        masked, created = (reply.masked, reply.created) if isinstance(reply, Reply) else ([], [])
        self.notes([f"added {one.type} {one.id}, which was not there yet" for one in created])
        self.notes([f"masked in {one.field}: {one.kind}" + f", {one.count} times" * (one.count > 1) for one in masked])

    def _is_receipt(self, operation: Operation, reply: BaseModel) -> bool:
        """Of what was written; what a check counted is its answer, the zeros too."""
        is_answer = operation.only_reads or operation.name == "check" or isinstance(operation, Program)
        return not is_answer and renderer_of(type(reply)) in (None, Renderer.receipt)

    def _receipt_line(self, operation: Operation, reply: BaseModel) -> None:
        from recollect.interfaces.cli.render.receipts import line_of

        self.console.print(escape(line_of(operation, reply)), soft_wrap=True)
        if key := getattr(reply, "key", None):  # it is shown this once, and copied
            print(key)
        self.notes(getattr(reply, "notes", []))

    def _show(self, reply: BaseModel) -> None:
        render = renderer_of(type(reply))
        if render is not None:
            render(self, reply)
            return
        listed = _only_list(reply)
        if listed is not None:
            self.listed(listed, getattr(reply, "next", None))
            return
        self.fields(reply.model_dump(mode="json", exclude=set(Reply.model_fields)))

    @contextmanager
    def progress(self, title: str, *, shown: bool) -> Iterator[Callable[[int, int], None] | None]:
        if not shown:
            yield None
            return
        from recollect.interfaces.progress import bar_for_command

        with bar_for_command(title) as report:
            yield report

    def when(self, moment: datetime | str) -> str:
        if isinstance(moment, str):
            moment = datetime.fromisoformat(moment)
        if self._zone is None:
            return moment.strftime("%Y-%m-%d %H:%M")
        with suppress(OverflowError):  # the first and last days of the calendar have no local time everywhere
            moment = moment.astimezone(self._zone)
        return moment.strftime("%Y-%m-%d %H:%M")

    def recalled(self, reply: RecallReply) -> None:
        if not reply.hits:
            self.console.print("Nothing found.")
        for place, hit in enumerate(reply.hits, 1):
            status = f"[{COLOURS[hit.status]}]{hit.status}[/]" if hit.type == "memory" else "[blue]message[/]"
            said = f"  [dim]{escape(hit.author)}, {self.when(hit.occurred_at)}[/]" if hit.author else ""
            text = f"… {hit.passage.text} …" if hit.passage else hit.text
            self.console.print(f"[bold]{place:2}[/] [cyan]{hit.match:5.2f}[/]  {escape(text)}  {status}{said}")
            self.console.print(f"           [dim]{escape(hit.why)}  {escape(hit.id)}[/]")
            for citation in hit.citations:
                self.console.print(f"           {_citation(citation.source, citation.state, citation.note)}")
        self.notes(reply.notes)

    def packed(self, reply: Context) -> None:
        self.console.print(escape(reply.text), soft_wrap=True)
        self.notes(reply.notes)

    def notes(self, notes: Sequence[str]) -> None:
        for note in notes:
            self.aside(note, "note: ")

    def aside(self, text: str, mark: str = "") -> None:
        """Beside what was asked for, so that who reads that with a program is not given more."""
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"[yellow]{mark}[/]{escape(text)}")

    def why_not(self, reply: WhyNot) -> None:
        for reason in reply.reasons:
            self.console.print(escape(reason))

    def memory(self, reply: MemoryView) -> None:
        self.console.print(f"[bold]{escape(reply.text)}[/]")
        self.console.print(
            f"[{COLOURS[reply.status]}]{reply.status}[/] {reply.kind}  [dim]{escape(reply.id)} v{reply.version}[/]"
        )
        table = Table.grid(padding=(0, 2))
        for name, value in reply.fields.items():
            if name not in INTERNAL and not (name == "content" and set(value) == {"text"}):
                shown = self.when(value) if name.endswith("_at") or name == "last_accessed" else _cell(value)
                table.add_row(f"[dim]{name}[/]", escape(shown))
        self.console.print(table)
        if reply.tags:
            self.console.print("tags: " + escape(", ".join(reply.tags)))
        for citation in reply.citations:
            self.console.print(_citation(citation.source, citation.state, citation.note))
        for link in reply.links:
            away = f"  [dim]in cold storage: recollect cold restore {escape(link.cold)}[/]" if link.cold else ""
            self.console.print(f"{escape(link.type)} {'→' if link.direction == 'to' else '←'} {escape(link.id)}{away}")

    def receipt(self, reply: Receipt) -> None:
        self.fields(reply.model_dump(mode="json", exclude_defaults=True, exclude=INTERNAL))

    def memories(self, reply: MemoryPage) -> None:
        table = Table("when", "status", "kind", "text", _whole("id"), box=None, header_style="dim")
        for line in reply.memories:
            text = line.text if len(line.text) <= 100 else line.text[:99] + "…"
            status = f"[{COLOURS[line.status]}]{line.status}[/]"
            table.add_row(self.when(line.occurred_at), status, line.kind, escape(text), f"[dim]{escape(line.id)}[/]")
        self.console.print(table)
        more = f"; more with --after {reply.next}" if reply.next else ""
        self.console.print(f"[dim]{len(reply.memories)} of {reply.total}{more}[/]")

    def named(self, reply: UserPage | AgentPage | ProjectPage) -> None:
        self.listed(list(reply), reply.next, ("id", "name", "email", "role", "type", "status", "created_at"))

    def keys(self, reply: KeyPage) -> None:
        shown = ("id", "name", "scopes", "user", "agent", "project", "namespace", "expires_at", "last_used_at")
        self.listed(reply.keys, reply.next, (*shown, "revoked_at"))

    def listed(self, rows: Sequence[BaseModel], next: str | None = None, fields: Sequence[str] = ()) -> None:
        """A table of records, with the columns that say something."""
        if not rows:
            self.console.print("None.")
            return
        values = [row.model_dump(mode="json", exclude=set(Reply.model_fields)) for row in rows]
        names = [name for name in fields or values[0] if any(_says(one.get(name)) for one in values)]
        columns = [_whole(name) if name == "id" else Column(_titled(name)) for name in names]
        table = Table(*columns, box=None, header_style="dim")
        for one in values:
            table.add_row(*(Text(self._listed_cell(name, one.get(name)), overflow="fold") for name in names))
        self.console.print(table)
        if next:
            self.console.print(f"[dim]more with --after {next}[/]")

    def _listed_cell(self, name: str, value: object) -> str:
        from recollect.interfaces.cli.render.cells import cell_text, clean

        if isinstance(value, str) and name.endswith("_at"):
            return self.when(value)
        is_plain = isinstance(value, list) and not any(isinstance(one, dict | list) for one in value)
        return clean(", ".join(map(str, value))) if is_plain and isinstance(value, list) else cell_text(value)

    def removed(self, reply: Removal) -> None:
        done = "would remove" if reply.dry_run else "removed"
        name = f"{reply.type} [bold]{escape(reply.name)}[/]"
        self.console.print(f"Removing {name}  [dim]{escape(reply.id)}[/]  {done}:")
        table = Table(box=None, show_header=False)
        for one in reply.takes:
            whose = f"of {one.owner_type} {one.owner_name or one.owner}" if one.owner else "without an owner"
            table.add_row(f"{one.count:,}", one.table, escape(whose), "[red]someone else's[/]" if one.others else "")
        for one in reply.hands_over:
            table.add_row(f"{one.count:,}", one.table, "handed over", "")
        self.console.print(table)
        if reply.refused:
            self.console.print(f"[yellow]would be refused:[/] {escape(reply.refused)}")
        if reply.restorable_until:
            self.console.print(
                f"`recollect {reply.type} restore` brings it back until {self.when(reply.restorable_until)}"
            )
        if reply.deleted:
            self.console.print(f"{reply.deleted:,} records deleted for good")
        for note in reply.notes:
            self.console.print(f"[yellow]note:[/] {escape(note)}")

    def log(self, reply: LogPage) -> None:
        table = Table("when", "what", "action", "by", "memory", _whole("id"), box=None, header_style="dim")
        for entry in reply.entries:
            when, by, memory = self.when(entry.timestamp), entry.actor or "", entry.memory or ""
            table.add_row(
                when, entry.operation, entry.action, escape(by), f"[dim]{escape(memory)}[/]", f"[dim]{entry.id}[/]"
            )
        self.console.print(table)

    def history(self, reply: History) -> None:
        table = Table("version", "from", "status", "text", "then", box=None, header_style="dim")
        for entry in reply.entries:
            status = f"[{COLOURS[entry.status]}]{entry.status}[/]"
            then = f"{entry.change}{f' by {entry.by}' if entry.by else ''}{f': {entry.why}' if entry.why else ''}"
            table.add_row(str(entry.number), self.when(entry.held_from), status, escape(entry.text), escape(then))
        self.console.print(table)

    def verified(self, reply: VerifyReply) -> None:
        if reply.sound:
            self.console.print(f"[green]no problems found[/] (memories: {reply.memories}, vectors: {reply.vectors})")
        alike: dict[tuple[str | None, str], list[ProblemView]] = {}
        for problem in reply.problems:
            alike.setdefault((problem.table, problem.what), []).append(problem)
        for (table, what), problems in list(alike.items())[:LISTED]:
            count = sum(problem.count for problem in problems)
            where = " ".join(part for part in (table, problems[0].id) if part)
            others = f" (and {count - 1:,} more)" if count > 1 else ""
            self.console.print(f"[red]✗[/] {escape(f'{where}{others}: ' if where else '')}{escape(what)}")
        if len(alike) > LISTED or any(len(problems) > 1 for problems in alike.values()):
            self.console.print("--json lists all of them")

    def diagnosis(self, reply: Diagnosis) -> None:
        width = max(10, *(len(finding.name) for finding in reply.findings))
        for finding in reply.findings:
            mark = "[green]✓[/]" if finding.well else "[red]✗[/]"
            self.console.print(f"{mark} {finding.name:{width}} {escape(finding.says)}")
            if finding.remedy:
                self.console.print(f"{' ' * (width + 3)}{escape(finding.remedy)}")
        for done in reply.mended:
            self.console.print(f"fixed: {escape(done)}")

    def stats(self, reply: Stats) -> None:
        self.console.print(
            f"{reply.memories} memories, {reply.forgotten} forgotten, {reply.uncited} without a citation"
            + (", encrypted" if reply.encrypted else "")
            + {"sealed": ", texts encrypted", "sealing": ", texts are being encrypted"}.get(reply.texts, "")
        )
        for title, counts in (("kind", reply.kinds), ("status", reply.statuses)):
            most = max(counts.values(), default=0) or 1
            for name, count in counts.items():
                bar = "█" * round(30 * count / most)
                self.console.print(f"  {title:7}{name:16} {count:8} [cyan]{bar}[/]")

    def activity(self, reply: Activity) -> None:
        most = max((day.accesses for day in reply.days), default=0) or 1
        for day in reply.days:
            bar = "█" * round(30 * day.accesses / most)
            self.console.print(f"{day.date} {day.remembered:8} remembered {day.accesses:8} accesses [cyan]{bar}[/]")

    def copied(self, reply: CopyReply) -> None:
        for one in reply.organizations:
            self.console.print(
                f"[green]✓[/] {escape(one.organization)}: {one.records:,} records, {one.written:,} written"
            )
            self.console.print(f"  [dim]identical on both sides: {one.hash}[/]")
        self.notes(reply.notes)

    def store_key(self, reply: StoreKey) -> None:
        self.console.print(f"{escape(reply.store)}: {reply.says}")

    def new_key(self, reply: NewKey) -> None:
        """The key alone: it may go into a pipe."""
        print(reply.key or f"wrote a new key to {reply.path}")

    def settings(self, reply: SettingsView) -> None:
        self.console.print(f"[bold]{escape(reply.store)}[/]" + (f"  profile {reply.profile}" if reply.profile else ""))
        if reply.settings:
            table = Table("setting", "value", "from", box=None, header_style="dim")
            for one in reply.settings:
                table.add_row(one.name, Text(one.value, overflow="fold"), Text(one.origin, overflow="fold"))
            self.console.print(table)
        for file in reply.files:
            self.console.print(f"[dim]{file.says:8}[/] {escape(file.path)}")
        for profile in reply.profiles:
            mark = "[green]✓[/]" if profile.used else " "
            self.console.print(f"{mark} profile {escape(profile.name)}  [dim]{escape(profile.store)}[/]")

    def layout(self, reply: PartitionsReply) -> None:
        from rich.filesize import decimal

        table = Table(_whole("partition"), "holds", "rows, about", "size", box=None, header_style="dim")
        for one in reply.partitions:
            table.add_row(escape(one.name), one.holds, f"{one.rows:,}", decimal(one.bytes))
        if reply.partitions:
            self.console.print(table)
        for name in reply.made:
            self.console.print(f"made {escape(name)}")
        for drop in reply.drops:
            done = "dropped" if reply.applied else "would drop"
            whose = [f"{escape(name)} {count:,}" for name, count in drop.organizations.items()]
            whose += [f"other organizations {drop.others:,}"] if drop.others else []
            self.console.print(f"{done} {escape(drop.partition)}: {drop.rows:,} rows ({', '.join(whose) or 'empty'})")
            for name, count in drop.hanging.items():
                self.console.print(f"           with {count:,} of {escape(name)}")
        if reply.note:
            self.console.print(escape(reply.note))

    def rows(self, reply: SqlReply) -> None:
        table = Table(*(Column(escape(name)) for name in reply.columns), box=None, header_style="dim")
        for row in reply.rows:
            table.add_row(*(Text(_cell(value), overflow="fold") for value in row))
        self.console.print(table)
        if reply.cut:
            self.console.print(f"[dim]the first {len(reply.rows)} rows; --limit shows more[/]")

    def fields(self, values: Mapping[str, object]) -> None:
        table = Table.grid(padding=(0, 2))
        for name, value in values.items():
            if value not in (None, "", [], {}):
                shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
                table.add_row(f"[dim]{name}[/]", Text(shown, overflow="fold"))
        self.console.print(table)


def _only_list(reply: BaseModel) -> list[BaseModel] | None:
    """The records of a reply that is a list of them."""
    from pydantic import BaseModel as Model

    lists = [getattr(reply, name) for name in type(reply).model_fields if name not in Reply.model_fields]
    found = [one for one in lists if isinstance(one, list) and one and all(isinstance(row, Model) for row in one)]
    return found[0] if len(found) == 1 and len(lists) <= 3 else None


def _says(value: object) -> bool:
    return value not in (None, "", [], {}, False)


def _titled(name: str) -> str:
    return name.removesuffix("_at").replace("_", " ")


def _cell(value: object) -> str:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | bool) else str(value)


def _whole(title: str) -> Column:
    """An id is copied, so it is never shortened."""
    return Column(title, no_wrap=True, overflow="ignore", min_width=36)


def _console() -> Console:
    """A terminal's own width; room for whole lines when a program or a file reads them."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=250)


def _citation(source: str, state: str, note: str) -> str:
    return f"[{STATES[state]}]{state:11}[/] {escape(source)}" + (f"  [dim]{escape(note)}[/]" if note else "")


Render = Callable[[Renderer, Any], None]
OWN: dict[str, Render] = {
    "app.config_show:SettingsView": Renderer.settings,
    "app.key_changes:NewKey": Renderer.new_key,
    "app.key_changes:StoreKey": Renderer.store_key,
    "services.access.keys:KeyPage": Renderer.keys,
    "services.access.projects:ProjectPage": Renderer.named,
    "services.access.users:UserPage": Renderer.named,
    "services.admin.activity:Activity": Renderer.activity,
    "services.admin.audit:LogPage": Renderer.log,
    "services.admin.copy:CopyReply": Renderer.copied,
    "services.admin.maintenance:Diagnosis": Renderer.diagnosis,
    "services.admin.maintenance:Stats": Renderer.stats,
    "services.admin.maintenance:VerifyReply": Renderer.verified,
    "services.admin.partitions:PartitionsReply": Renderer.layout,
    "services.admin.removal:Removal": Renderer.removed,
    "services.agents.agents:AgentPage": Renderer.named,
    "services.memories.lifecycle:History": Renderer.history,
    "services.memories.revise:Receipt": Renderer.receipt,
    "services.recall.browse:MemoryPage": Renderer.memories,
    "services.recall.browse:MemoryView": Renderer.memory,
    "services.recall.context:Context": Renderer.packed,
    "services.recall.recall:RecallReply": Renderer.recalled,
    "services.recall.user_sql:SqlReply": Renderer.rows,
    "services.recall.why_not:WhyNot": Renderer.why_not,
}
"""By names: a command imports what it shows, and not the types of all replies there are."""
AREAS = {
    "interfaces.hosts": "hosts",
    "interfaces.measurement_replies": "measurements",
    "services.admin.bulk_changes": "relations",
    "services.admin.import_": "imports",
    "services.agents": "agents",
    "services.backups": "backups",
    "services.cold": "retention",
    "services.conversations": "agents",
    "services.data": "queries",
    "services.data.connections": "connections",
    "services.data.find": "found",
    "services.data.sources": "sources",
    "services.frameworks": "frameworks",
    "services.learning": "learning",
    "services.memories.relations": "relations",
    "services.memories.tags": "relations",
    "services.privacy": "privacy",
    "services.recall.linked": "relations",
    "services.retention": "retention",
    "services.runs": "runs",
    "services.workspaces": "agents",
}
"""The module here that shows the replies of a package or module, in its RENDERERS."""


def renderer_of(reply: type) -> Render | None:
    """What shows replies of this type; what is refined is looked for after what refines it."""
    for one in reply.__mro__:
        module = one.__module__.removeprefix("recollect.")
        found = OWN.get(f"{module}:{one.__name__}") or _of_area(module, one)
        if found is not None:
            return found
    return None


def _of_area(module: str, reply: type) -> Render | None:
    area = AREAS.get(module) or AREAS.get(module.rpartition(".")[0])
    if area is None:
        return None
    renderers: dict[type, Render] = import_module(f"recollect.interfaces.cli.render.{area}").RENDERERS
    return renderers.get(reply)
