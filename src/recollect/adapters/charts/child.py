"""A process that draws one chart and ends: a job as JSON from stdin, the file to stdout.

Measured: V8 takes 120 to 250 MB, holds the interpreter's lock for half a second or longer, and cannot be stopped from
within. None of that belongs into a service. It is held as a child of the data engine is: no network, no other program,
no file outside its folder can be written. V8 reserves 64 GB of address space, so what is limited is the data segment.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from recollect.adapters.charts.caption import with_caption
from recollect.adapters.data.confinement import confine
from recollect.domain.charts.themes import COLOURS

_MOST_BYTES = 1 << 30
_CPU_SECONDS = 20


def main() -> None:
    confine(Path(sys.argv[1]))
    if sys.platform.startswith("linux"):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (_MOST_BYTES, _MOST_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    job = json.load(sys.stdin)
    sys.stdout.buffer.write(_done(job))


def _done(job: dict[str, object]) -> bytes:
    import vl_convert

    if job["format"] == "javascript":
        return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").encode()
    spec, theme = job["spec"], job["theme"]
    assert isinstance(spec, dict)
    svg = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    svg = with_caption(svg, str(job["facts"]), str(job["sql"]), COLOURS["dark" if theme == "dark" else "light"])
    if job["format"] == "png":
        return vl_convert.svg_to_png(svg, scale=2.0)
    return vl_convert.svg_to_pdf(svg) if job["format"] == "pdf" else svg.encode()


if __name__ == "__main__":
    main()
