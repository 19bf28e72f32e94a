"""The caption under a chart that is a picture: how many rows, what was left out, and the statement."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

from recollect.domain.charts.formats import wrapped
from recollect.domain.charts.themes import FONT, Colours

_MOST_LINES = 14
_LINE, _CODE_LINE, _MARGIN = 18, 16, 16
_MONO = "SFMono-Regular, Menlo, Consolas, Liberation Mono, DejaVu Sans Mono, monospace"
_SIZE = re.compile(r'<svg[^>]*?\swidth="([\d.]+)"[^>]*?\sheight="([\d.]+)"')
_NOT_XML = re.compile(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def with_caption(svg: str, facts: str, sql: str, colours: Colours) -> str:
    """The picture with its caption below it."""
    found = _SIZE.search(svg)
    if found is None or not (facts or sql):
        return svg
    width, height = max(360.0, float(found[1])), float(found[2])
    facts_lines = wrapped(facts, int((width - 2 * _MARGIN) / 6.2), 3) if facts else []
    code_lines = _code_lines(sql, int((width - 2 * _MARGIN) / 6.7))
    whole = height + _LINE * len(facts_lines) + _CODE_LINE * len(code_lines) + 8 + _MARGIN
    rule = f'x1="{_MARGIN}" x2="{width - _MARGIN}" y1="{height}" y2="{height}"'
    texts, y = [f'<line {rule} stroke="{colours["line"]}"/>'], height + 8
    for line in facts_lines:
        y += _LINE
        texts.append(_text(line, y, FONT, 12, colours["faint"]))
    for line in code_lines:
        y += _CODE_LINE
        texts.append(_text(line, y, _MONO, 11, colours["faint"]))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="{width:g}" '
        f'height="{whole:g}" viewBox="0 0 {width:g} {whole:g}">'
        f'<rect width="100%" height="100%" fill="{colours["background"]}"/>{svg}{"".join(texts)}</svg>'
    )


def _code_lines(sql: str, width: int) -> list[str]:
    found: list[str] = []
    for line in sql.strip().expandtabs(4).splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        found += [indent + part for part in wrapped(line.strip(), max(20, width - len(indent)), _MOST_LINES)]
    return found if len(found) <= _MOST_LINES else [*found[: _MOST_LINES - 1], "…"]


def _text(line: str, y: float, font: str, size: int, fill: str) -> str:
    shown = escape(_NOT_XML.sub(" ", line))
    return (
        f'<text x="{_MARGIN}" y="{y:g}" font-family={quoteattr(font)} font-size="{size}" fill="{fill}" '
        f'xml:space="preserve">{shown}</text>'
    )
