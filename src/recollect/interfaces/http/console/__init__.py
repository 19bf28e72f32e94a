"""The console: pages for people, rendered here from the operations of the catalogue.

A page asks only what the visitor may ask, through the same operations as every other interface. Pages only read; what
changes something is sent by the page's script to the API itself, with the proof that one of our pages sends it.
"""

from __future__ import annotations

from recollect.interfaces.http.app import Endpoint, Service
from recollect.interfaces.http.console import (
    admin_pages,
    agent_pages,
    conversation_pages,
    data_pages,
    export,
    import_pages,
    memory_pages,
    privacy_pages,
    sign_in,
    timeline_pages,
)
from recollect.interfaces.http.console.page_context import page_endpoint
from recollect.settings import Settings


def endpoints(service: Service, settings: Settings) -> list[Endpoint]:
    """Every page, with what they are drawn with and the way in and out."""
    pages = [
        *timeline_pages.PAGES,
        *memory_pages.PAGES,
        *conversation_pages.PAGES,
        *data_pages.PAGES,
        *agent_pages.PAGES,
    ]
    pages += [*import_pages.PAGES, *privacy_pages.PAGES, *admin_pages.pages(settings)]
    files = [*sign_in.endpoints(service), *data_pages.endpoints(service), *export.endpoints(service)]
    return [*files, *(page_endpoint(service, page) for page in pages)]
