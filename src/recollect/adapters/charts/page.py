"""A chart as a page of its own: everything inlined, nothing loaded, in the colours that the reader's system prefers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape

from recollect.domain.charts.chart import caption_of, themed
from recollect.domain.charts.themes import COLOURS, FONT, Theme

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; \
style-src 'unsafe-inline'">
<title>{title}</title>
<style>
body {{ margin: 0; font: 14px/1.5 {font}; background: {light[background]}; color: {light[text]} }}
figure {{ margin: 1.5rem auto; max-width: 60rem; padding: 0 1rem; overflow-x: auto }}
figcaption {{ color: {light[faint]}; border-top: 1px solid {light[line]}; padding-top: .75rem }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; margin: .5rem 0 0 }}
@media (prefers-color-scheme: dark) {{
  body {{ background: {dark[background]}; color: {dark[text]} }}
  figcaption {{ color: {dark[faint]}; border-color: {dark[line]} }}
}}
</style>
</head>
<body>
<figure>
<div id="chart" role="img" aria-label="{description}"></div>
<figcaption>{facts}{code}</figcaption>
</figure>
<script>{library}</script>
<script>
const specs = {specs};
const dark = matchMedia("(prefers-color-scheme: dark)");
const options = {{ actions: false, ast: true, renderer: "svg" }};
const draw = () => vegaEmbed("#chart", specs[dark.matches ? "dark" : "light"], options);
dark.addEventListener("change", draw);
draw();
</script>
</body>
</html>
"""


def page(spec: Mapping[str, object], javascript: str, theme: Theme | None = None) -> str:
    caption, title = caption_of(spec), spec.get("title")
    lines = title.get("text") if isinstance(title, dict) else None
    looks: dict[Theme, Theme] = {"light": theme or "light", "dark": theme or "dark"}
    specs = {name: themed(spec, look) for name, look in looks.items()}
    return _PAGE.format(
        title=escape(" ".join(map(str, lines)) if isinstance(lines, list) else "Chart"),
        description=escape(str(spec.get("description", ""))),
        facts=escape(caption.facts),
        code=f"<pre>{escape(caption.sql)}</pre>" if caption.sql else "",
        library=javascript.replace("</script", "<\\/script"),
        # Nothing in a value can end the script or begin a comment in it.
        specs=json.dumps(specs).replace("<", "\\u003c").replace("\u2028", "\\u2028"),
        font=FONT,
        light=COLOURS["light"],
        dark=COLOURS["dark"],
    )
