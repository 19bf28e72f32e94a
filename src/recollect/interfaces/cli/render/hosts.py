"""Coding agents and checks of pull requests for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from recollect.interfaces.hosts.ci import CiReply, shown
from recollect.interfaces.hosts.install import InstallReply

if TYPE_CHECKING:
    from recollect.interfaces.cli.render.replies import Renderer


def installed(renderer: Renderer, reply: InstallReply) -> None:
    if reply.hosts:
        table = Table("host", "", "your settings", "this project", box=None, header_style="dim")
        for one in reply.hosts:
            table.add_row(one.host, one.title, one.yours, one.project)
        renderer.console.print(table)
    for file in reply.changed:
        renderer.console.print(f"wrote {escape(file)}", soft_wrap=True)
    renderer.notes(reply.notes)


def checked(renderer: Renderer, reply: CiReply) -> None:
    """As it is: CI reads lines, and a table would wrap them."""
    for line in shown(reply):
        print(line)


RENDERERS: dict[type, Callable[[Renderer, Any], None]] = {InstallReply: installed, CiReply: checked}
