"""`recollect config show`: which settings hold, where each is from, and which files were looked at."""

from __future__ import annotations

import json

from pydantic import BaseModel, Field, SecretStr

from recollect.services.requests import Reply
from recollect.settings import Settings, loaded, shown
from recollect.settings_files import FoundFile, of_project, of_user, profiles_of, user_file


class SettingView(Reply):
    """One setting that is not as it would be by itself."""

    name: str
    value: str = Field(description="Without keys and passwords")
    origin: str = Field(description="Where it is from: a file, a profile, the environment or an argument")


class FileView(Reply):
    """A settings file that was looked for."""

    path: str
    says: str = Field(description="Whether it is there and counts, and why not")


class ProfileView(Reply):
    """A profile of the user."""

    name: str
    store: str
    used: bool = False


class SettingsView(Reply):
    """The settings that hold here."""

    store: str
    profile: str | None = Field(None, description="The profile that counts, if any")
    settings: list[SettingView] = Field(default_factory=list)
    files: list[FileView] = Field(default_factory=list)
    profiles: list[ProfileView] = Field(default_factory=list)


def show_settings(source: str | None = None, profile: str | None = None) -> SettingsView:
    """The settings as a command would have them that is run here and now; opens nothing."""
    found = loaded(source, profile=profile)
    settings, user = found.settings, of_user()
    files = [_file(str(user_file()), user, bool(found.files) and user in found.files)]
    if (project := of_project()) is not None:
        files.append(_file(str(project.path), project, project in found.files and not profile))
    return SettingsView(
        store=shown(settings.store),
        profile=found.profile,
        settings=[
            SettingView(name=name, value=_value(getattr(settings, name)), origin=found.origins.get(name, "a default"))
            for name in Settings.model_fields
            if name in settings.model_fields_set
        ],
        files=files,
        profiles=[
            ProfileView(name=name, store=shown(str(values.get("store", ""))), used=name == found.profile)
            for name, values in profiles_of(user).items()
        ],
    )


def _file(path: str, found: FoundFile | None, counts: bool) -> FileView:
    if found is None:
        return FileView(path=path, says="not there")
    if found.ignored:
        return FileView(path=path, says=f"ignored: {found.ignored}")
    return FileView(path=path, says="used" if counts else "not used: a store was named")


def _value(value: object) -> str:
    if isinstance(value, SecretStr):
        return "***"
    if isinstance(value, BaseModel):
        named = {name: getattr(value, name) for name in value.model_fields_set}
        return ", ".join(f"{name}={_value(inner)}" for name, inner in named.items())
    if isinstance(value, str):
        return shown(value)
    return json.dumps(value, default=str, ensure_ascii=False) if isinstance(value, dict | list | bool) else str(value)
