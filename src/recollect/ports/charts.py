"""The port for drawing charts: a Vega-Lite spec in, a file out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from recollect.domain.charts.themes import Theme

ChartFormat = Literal["svg", "png", "pdf", "html", "json"]


class ChartRenderer(Protocol):
    """Both verbs may raise MissingExtra, Overloaded (too many at once) and Unavailable."""

    def render(self, spec: Mapping[str, object], format: ChartFormat, *, theme: Theme = "light") -> bytes:
        """The chart as a file, with its caption under it: the statement, the rows, what was left out.

        A spec may be a stranger's. Raises InvalidInput or TooLarge where it is not like those of
        `recollect.domain.charts`: nothing is loaded from an address, and no expression is computed.
        """

    def javascript(self) -> bytes:
        """A script that sets `window.vegaEmbed`: what draws charts in a browser, with all it needs."""
