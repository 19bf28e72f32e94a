"""The main job in one sitting: remember with citations, recall with reasons, verify, notice, forget, pack.

Run it with `make demo`. It works in a temporary folder and leaves nothing behind.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.rule import Rule

import recollect
from recollect.catalogue import OPERATIONS
from recollect.interfaces.cli.render.replies import Renderer

console = Console(highlight=False, width=110)
renderer = Renderer(console=console)

PARSER = """def parse_header(line):
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        hash = _repository(directory)
        with recollect.open(directory / "team.db", actor="demo", citation_root=directory) as mem:
            ids = remember(mem, directory, hash)
            recall(mem)
            verify(mem, ids)
            go_stale(mem, directory, ids)
            expire(mem)
            replace(mem, ids)
            pack(mem)
            health(mem)
    console.print(Rule("done"))
    console.print("The same from the command line: [bold]recollect --help[/]   In Python: README.md")


def remember(mem: Any, directory: Path, hash: str) -> dict[str, str]:
    title("1  Remember, and say where it comes from")
    cite = recollect.cite
    ids = {}
    for name, text, options in (
        ("pytest", "Alice prefers pytest over unittest", {"cites": [cite.user("alice", "said so in review")]}),
        ("parser", "parse_header() lower-cases header names", {"cites": [cite.file("parser.py", (1, 3))]}),
        ("commit", "The retry limit was raised to 5 attempts", {"cites": [cite.commit(hash, str(directory))]}),
        ("guess", "The flaky upload test is probably a clock problem", {}),
        ("code", "The door code of the lab is 4711 today", {"ttl_seconds": 0.5}),
    ):
        receipt = mem.remember(text, user="alice", tags=["demo"], **options)
        ids[name] = receipt.id
        cited = f"{receipt.citations} citation" if receipt.citations else "[yellow]no citation[/]"
        console.print(f"  {escape(text):52} {cited:12} [dim]{', '.join(receipt.indexed)}[/]")
    again = mem.remember("Alice prefers pytest over unittest", user="alice")
    console.print(f"  [dim]the first one again: recognised as a duplicate ({again.duplicate}), stored once[/]")
    return ids


def recall(mem: Any) -> None:
    title("2  Recall by meaning, with the reasons for each rank")
    for question in ("what does Alice like to write tests with?", "how often do we try again?"):
        with asked(question):
            renderer.show(OPERATIONS["recall"], mem.recall(question, limit=2))


def verify(mem: Any, ids: dict[str, str]) -> None:
    title("3  Trust is earned: a memory is verified when its citations hold")
    for name in ("pytest", "parser", "commit"):
        standing = mem.promote(ids[name], why="checked in the demo")
        console.print(f"  [green]{standing.status}[/]  {escape(standing.citations[0])}")
    try:
        mem.promote(ids["guess"])
    except recollect.RecollectError as error:
        console.print(f"  [yellow]refused[/]   {escape(error.message)}")
    question = "what does Alice like to write tests with?"
    with asked(question, 'purpose="act", so only what is verified'):
        renderer.show(OPERATIONS["recall"], mem.recall(question, purpose="act", limit=1))


def go_stale(mem: Any, directory: Path, ids: dict[str, str]) -> None:
    title("4  The cited file changes, and the memory notices")
    (directory / "parser.py").write_text(PARSER.replace(".lower()", ""))
    console.print("  [dim]parser.py: .lower() was removed[/]")
    report = mem.check()
    console.print(f"  checked {report.looked_at} citations: {report.holds} hold, [red]{report.broken} broken[/]")
    renderer.show(OPERATIONS["history"], mem.history(ids["parser"]))


def expire(mem: Any) -> None:
    title("5  Some things are not for keeping")
    time.sleep(0.6)
    found = [hit.text for hit in mem.recall("door code of the lab") if "door code" in hit.text]
    console.print(f"  asked for the door code after its time: {found or 'not found'}")
    console.print(f"  sweep deleted {mem.sweep().expired} expired memory for good")


def replace(mem: Any, ids: dict[str, str]) -> None:
    title("6  Facts change; what was known then is still known")
    before = recollect.domain.record.now()
    newer = recollect.cite.user("alice", "told us on Friday")
    claim = mem.remember("Alice now prefers ward over pytest", user="alice", supersedes=ids["pytest"], cites=[newer])
    console.print("  [dim]a verified memory gives way only to a verified one, so the new claim is promoted first[/]")
    mem.promote(claim.id, why="Alice confirmed it")
    for label, options in (("now", {}), ("as of a moment ago", {"as_of": before})):
        best = mem.recall("what does Alice prefer for tests?", limit=1, **options)[0]
        console.print(f"  {label:20} {escape(best.text)}")


def pack(mem: Any) -> None:
    title("7  Ready for a prompt, within a budget, labelled with origin and trust")
    context = mem.context("write tests for the header parser", tokens=220)
    console.print(Panel(escape(str(context)), title=f"{context.tokens} tokens", border_style="dim"))


def health(mem: Any) -> None:
    title("8  And the store can say how it is")
    renderer.show(OPERATIONS["doctor"], mem.doctor())


def title(text: str) -> None:
    console.print()
    console.print(Rule(f"[bold]{text}[/]", align="left", style="cyan"))


@contextmanager
def asked(question: str, options: str = "") -> Iterator[None]:
    begun = time.perf_counter()
    console.print(f"  [bold]{question}[/] [dim]{options}[/]")
    yield
    console.print(f"           [dim]answered in {(time.perf_counter() - begun) * 1000:.0f} ms[/]")


def _repository(directory: Path) -> str:
    """A small git repository with something to cite."""
    (directory / "parser.py").write_text(PARSER)
    (directory / "retry.py").write_text("ATTEMPTS = 5\n")
    identity = ["-c", "user.name=demo", "-c", "user.email=demo@example.com", "-c", "commit.gpgsign=false"]
    run = ["git", "-C", str(directory)]
    subprocess.run([*run, "init", "-q"], check=True)
    subprocess.run([*run, "add", "parser.py", "retry.py"], check=True)
    subprocess.run([*run, *identity, "commit", "-q", "-m", "Raise the retry limit to 5"], check=True)
    shown = subprocess.run([*run, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return shown.stdout.strip()


if __name__ == "__main__":
    main()
