"""What is stored about a person, and certificates of erasures, for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from recollect.interfaces.cli.render.cells import clean
from recollect.services.privacy.certificate import CertificatePage, CertificateVerdict
from recollect.services.privacy.erase import ErasureReply
from recollect.services.privacy.export import SubjectExport
from recollect.services.privacy.find import SubjectPage
from recollect.services.privacy.subject import RELATIONS

if TYPE_CHECKING:
    from recollect.interfaces.cli.render.replies import Renderer


def found(renderer: Renderer, reply: SubjectPage) -> None:
    name = escape(clean(reply.name or reply.user))
    renderer.console.print(f"Stored about [bold]{name}[/]  [dim]{escape(clean(reply.user))}[/]")
    counts = Table("kind", *RELATIONS, box=None, header_style="dim")
    known = {(one.kind, one.relation): one.count for one in reply.counts}
    for kind in sorted({one.kind for one in reply.counts}):
        numbers = [f"{known[kind, relation]:,}" if (kind, relation) in known else "" for relation in RELATIONS]
        counts.add_row(kind, *numbers)
    renderer.console.print(counts)
    renderer.console.print(f"{reply.log_entries:,} entries of the access log name them")
    renderer.console.print("[dim]" + "; ".join(f"{name}: {says}" for name, says in RELATIONS.items()) + "[/]\n")
    listed = Table("kind", "relation", "title", "created", "id", box=None, header_style="dim")
    for one in reply.records:
        when = renderer.when(one.created_at) if one.created_at else ""
        listed.add_row(one.kind, one.relation, escape(clean(one.title)), when, escape(clean(one.id)))
    renderer.console.print(listed)
    for certificate in reply.certificates:
        renderer.console.print(f"[yellow]note:[/] an erasure of this id is {certificate.status}: {certificate.id}")
    if reply.next:
        renderer.console.print(f"[dim]more with --after {reply.next}[/]")


def exported(renderer: Renderer, reply: SubjectExport) -> None:
    table = Table(box=None, show_header=False)
    for kind, count in sorted(reply.kinds.items()):
        table.add_row(f"{count:,}", kind)
    renderer.console.print(table)
    renderer.console.print(f"{reply.records:,} records and {reply.files:,} files in [bold]{escape(reply.path)}[/]")


def erased(renderer: Renderer, reply: ErasureReply) -> None:
    console, will = renderer.console, reply.dry_run
    console.print(f"Erasing [bold]{escape(clean(reply.user))}[/]  {'would delete' if will else 'deleted'} for good:")
    table = Table(box=None, show_header=False)
    rows = [
        *((count, kind, "") for kind, count in reply.deleted.items()),
        *((count, "patterns and summaries", what) for what, count in reply.derived.items()),
        *((count, kind, "of others: the name is masked") for kind, count in reply.unnamed.items()),
        *((count, kind, "used by others: gets another owner, or none") for kind, count in reply.handed_over.items()),
        (reply.log_entries, "log entries", "name a pseudonym instead"),
    ]
    for count, kind, note in rows:
        table.add_row(f"{count:,}", kind, f"[dim]{note}[/]")
    console.print(table)
    if will:
        console.print("[yellow]This cannot be undone.[/]")
        return
    document = reply.certificate
    scan = document["scan"]
    looked = f"{scan['files']:,} places, {decimal(scan['bytes'])}"
    verdict = "[green]nothing of it was found[/]" if reply.clean else "[red]something of it was found[/]"
    console.print(f"Looked through {looked}: {verdict}")
    for place in scan["places"]:
        if place["found"]:
            console.print(f"  [red]{place['found']:,} in {escape(clean(place['name']))}[/]")
    for one in document["remains"]:
        console.print(f"[yellow]remains:[/] {escape(clean(one['where']))}: {escape(clean(one['what']))}")
    console.print(f"Certificate [bold]{document['id']}[/]: keep a copy, `recollect privacy certificates --json`")


def certificates(renderer: Renderer, reply: CertificatePage) -> None:
    table = Table("finished", "status", "deleted", "clean", "requested by", "id", box=None, header_style="dim")
    for one in reply.certificates:
        document = one.certificate
        when = renderer.when(one.finished_at) if one.finished_at else ""
        clean_word = {True: "[green]yes[/]", False: "[red]no[/]"}.get(document.get("scan", {}).get("clean"), "")
        asked = escape(clean(document.get("requested_by", "")))
        table.add_row(when, one.status, f"{one.deleted:,}", clean_word, asked, one.id)
    renderer.console.print(table if reply.certificates else "No one was erased.")
    if reply.public_key:
        renderer.console.print(f"[dim]signed with the public key[/] {reply.public_key}")
    if reply.next:
        renderer.console.print(f"[dim]more with --after {reply.next}[/]")


def verdict(renderer: Renderer, reply: CertificateVerdict) -> None:
    for one in reply.checks:
        mark = "[green]✓[/]" if one.sound else "[red]✗[/]"
        renderer.console.print(f"{mark} {one.name}: {escape(one.says)}")


RENDERERS: dict[type, Callable[[Renderer, Any], None]] = {
    SubjectPage: found,
    SubjectExport: exported,
    ErasureReply: erased,
    CertificatePage: certificates,
    CertificateVerdict: verdict,
}
