"""The background work of a program that opened a store itself.

It begins a while after the store was opened, and only then is its code loaded, which takes longer than everything else
that opening does: a short program never pays for it. `background.py` is the work. (tests/app/test_background.py)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recollect.background_thread import BackgroundThread
from recollect.services.tenant import Core
from recollect.settings import Settings

if TYPE_CHECKING:
    from recollect.app.background import Background


class EmbeddedBackground:
    def __init__(self, core: Core, settings: Settings) -> None:
        self._core, self._settings = core, settings
        self._work: Background | None = None
        self._thread = BackgroundThread("recollect.background", self.once, every_seconds=settings.background_seconds)

    def start(self) -> None:
        self._thread.start()

    def once(self) -> None:
        if self._work is None:
            from recollect.app.background import Background, embedded_schedule

            schedule = embedded_schedule(self._settings)
            self._work = Background(self._core, schedule, thread=self._thread, is_busy=self._core.journal.is_attending)
        self._work.once()

    def close(self) -> None:
        self._thread.stop()
        if self._work is not None:
            self._work.close()
