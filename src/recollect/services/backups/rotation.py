"""Which backups are kept: the newest of each of the last days, weeks and months that have one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from recollect.ports.backups import BackupPolicy


def kept(made: Mapping[str, datetime], policy: BackupPolicy) -> set[str]:
    """The ids to keep; the newest backup is always one of them."""
    newest_first = sorted(made, key=lambda id: (made[id], id), reverse=True)
    keep = set(newest_first[:1])
    for form, most in (("%Y-%j", policy.daily), ("%G-%V", policy.weekly), ("%Y-%m", policy.monthly)):
        newest_of: dict[str, str] = {}
        for id in newest_first:
            newest_of.setdefault(made[id].strftime(form), id)
        keep.update(list(newest_of.values())[:most])
    return keep
