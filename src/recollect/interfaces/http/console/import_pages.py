"""Import of a file that is dropped on a page: a preview first, then the import.

The page only says what can be read and how large it may be. Its script sends the file to `POST /v1/import`, first as a
dry run: permission, bounds and checks are those of the API.
"""

from __future__ import annotations

from recollect.interfaces.http.console.page_context import Page, PageContext, TemplateValues
from recollect.services.importers.registry import NAMES, source_named


def import_(context: PageContext) -> TemplateValues:
    return {
        "products": [source_named(name) for name in NAMES],
        "most_bytes": context.service.settings.most_upload_bytes,
    }


PAGES = (Page("/import", "import.html", "import_", import_),)
