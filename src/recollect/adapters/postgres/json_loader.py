"""JSON as the server sends it: UTF-8, and mostly empty.

The driver has the encoding of every value guessed; a recall reads twenty of them, and of most memories content and
metadata are `{}`.
"""

from __future__ import annotations

import json
from typing import Any

from psycopg.abc import Buffer
from psycopg.adapt import Loader


class JsonLoader(Loader):
    def load(self, data: Buffer) -> Any:
        return {} if data == b"{}" else json.loads(str(data, "utf-8"))
