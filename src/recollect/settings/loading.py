"""Settings from arguments, then the environment, then a YAML file, then the defaults.

A file is named, or found by itself: see `settings_files.py`. Beside that, this package is the only place that reads
the environment. `RECOLLECT_STORE=team.db` sets `store`; `RECOLLECT_EMBEDDER__PROVIDER=none` sets `embedder.provider`.
In any text `${NAME}` stands for an environment variable, `${file:/run/secrets/name}` for what a file holds. What they
stood for is never shown.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from recollect.domain.kinds import describe
from recollect.errors import InvalidSettings
from recollect.settings.schema import Settings, read_vectors
from recollect.settings.secrets import secret, secrets_in, shown, substituted
from recollect.settings_files import (
    FoundFile,
    Values,
    is_service,
    of_project,
    of_user,
    profile_named,
    profile_of,
    read_yaml,
    refuse_readable_key,
    user_file,
)

PREFIX = "RECOLLECT_"


class Layer(NamedTuple):
    """Settings from one place; those of the later layers count."""

    origin: str
    values: Values


class Loaded(NamedTuple):
    """The settings, where each of them is from, and the files that were looked for."""

    settings: Settings
    origins: dict[str, str]
    files: tuple[FoundFile, ...]
    profile: str | None


def load(source: str | Path | None = None, *, profile: str | None = None, **given: Any) -> Settings:
    """Settings from a YAML file or a store's address, the environment and keyword arguments."""
    return loaded(source, profile=profile, **given).settings


def loaded(source: str | Path | None = None, *, profile: str | None = None, **given: Any) -> Loaded:
    """The same, with where they are from."""
    _check_source(source)
    environment = _environment(os.environ)
    path = _settings_file(source, environment.pop("config", None))
    default = environment.pop("profile", None)
    if source is not None and profile is not None:
        raise InvalidSettings("a store and a profile were given", remedy="give one of them")
    layers, files, used = list[Layer](), tuple[FoundFile, ...](), None
    is_named = source is not None or path is not None
    if path is not None and profile is None:
        layers = [Layer(str(path), _from_yaml(path))]
    elif profile is not None or (not is_named and "store" not in environment):
        layers, files, used = _found(profile or default)
    elif default and not is_named:
        raise InvalidSettings(
            f"both {PREFIX}STORE and {PREFIX}PROFILE are set", remedy="unset one of them, or give --store or --profile"
        )
    said = [Layer("the environment", environment)]
    layers = layers[:-1] + said + layers[-1:] if profile is not None else layers + said
    if source is not None and path is None:
        layers.append(Layer("an argument", {"store": str(source)}))
    layers.append(Layer("an argument", {name: value for name, value in given.items() if value is not None}))
    values, origins = _laid(layers)
    return Loaded(_validated(_with_key(values, origins, files)), origins, files, used)


def _found(wanted: str | None) -> tuple[list[Layer], tuple[FoundFile, ...], str | None]:
    """What the files say that are found by themselves: the user's own, the project's, and the profile last."""
    user, project = of_user(), of_project()
    files = tuple(one for one in (user, project) if one is not None)
    layers, named = list[Layer](), wanted
    if user is not None:
        own = {name: value for name, value in user.values.items() if name not in ("profile", "profiles")}
        layers.append(Layer(str(user.path), _beside(user.path, own)))
        named = named or user.values.get("profile")
    if project is not None and not project.ignored and wanted is None:
        named = project.values.get("profile") or (None if "store" in project.values else named)
        own = {name: value for name, value in project.values.items() if name != "profile"}
        layers.append(Layer(str(project.path), _beside(project.path, own)))
    if named is not None:
        values = profile_named(str(named), user)
        layers.append(Layer(f"profile {named}", _beside(user_file(), values)))
    return layers, files, None if named is None else str(named)


_SERVICE_KEYS = {"api_key", "api_key_file"}


def _laid(layers: list[Layer]) -> tuple[Values, dict[str, str]]:
    values, origins = Values(), dict[str, str]()
    for layer in layers:
        if layer.values.keys() & _SERVICE_KEYS:  # a key of a later layer replaces one in a file of an earlier
            values = {name: value for name, value in values.items() if name not in _SERVICE_KEYS}
        values = _merged(values, layer.values)
        origins |= dict.fromkeys(layer.values, layer.origin)
    return values, origins


def _with_key(values: Values, origins: dict[str, str], files: tuple[FoundFile, ...]) -> Values:
    """With the key of the user's profile for a service. A project may name a service, but not have a key sent to it
    that is meant for another: so of the environment it gets none."""
    store = str(values.get("store", ""))
    if not is_service(store):
        return values
    of_a_project = any(str(one.path) == origins.get("store") and one.path != user_file() for one in files)
    if not of_a_project and (values.get("api_key") or values.get("api_key_file")):
        return values
    known = profile_of(store, of_user())
    if known is None and of_a_project:
        raise InvalidSettings(
            f"'{origins['store']}' names the service {shown(store)}, which you have no profile for",
            remedy=f"add one with its address and key to '{user_file()}', or name it yourself: --store {shown(store)}",
        )
    if known is None:
        return values
    keys = {name: known[name] for name in _SERVICE_KEYS if known.get(name)}
    origins |= dict.fromkeys(keys, f"the profile of {shown(store)}")
    without = {name: value for name, value in values.items() if name not in _SERVICE_KEYS}
    return without | _beside(user_file(), keys)


def _validated(values: Values) -> Settings:
    for name in ("embedder", "incoming_embedder", "language_model"):
        if isinstance(values.get(name), str):
            values[name] = {"provider": values[name]}
    try:
        return Settings.model_validate(substituted(values))
    except ValidationError as error:
        raise InvalidSettings(
            f"the settings are not valid: {describe(error)}", remedy="see docs/reference/settings.md"
        ) from None


def service_key(settings: Settings) -> str:
    """The key to the service that the settings name. What encrypts a store is never sent to one, even by mistake."""
    if settings.api_key is not None and settings.api_key_file is not None:
        raise InvalidSettings("both api_key and api_key_file are set", remedy="set only one of them")
    given = settings.api_key.get_secret_value() if settings.api_key is not None else ""
    given = given or (settings.api_key_file is not None and secret("", settings.api_key_file)) or ""
    if given:
        return given
    named = settings.key.get_secret_value() if settings.key is not None else ""
    if named.startswith("rk."):
        return named
    raise InvalidSettings(
        f"there is no key for the service {shown(settings.store)}",
        remedy=f"export {PREFIX}API_KEY=rk.…, or add a profile with the address and api_key_file to '{user_file()}'",
    )


def handed_on(settings: Settings) -> dict[str, Any]:
    """Settings for another process of the same service, as JSON has them: with the keys, so for nobody else to see."""
    values = settings.model_dump(mode="json", exclude_unset=True)
    secrets = {name: getattr(settings, name) for name in ("key", "previous_key", "api_key")}
    return values | {name: one.get_secret_value() for name, one in secrets.items() if one is not None}


def received(values: Values) -> Settings:
    """The settings that were handed on; nothing of the environment is read again."""
    return Settings.model_validate(values)


def written_secrets(source: str | Path | None) -> list[str]:
    """The settings of a YAML file that hold a secret as it is: the key, and addresses with a password."""
    path = _settings_file(source, _environment(os.environ).get("config"))
    return sorted(secrets_in(_from_yaml(path))) if path is not None else []


def _check_source(source: object) -> None:
    """A path or an address; whatever else it is would become the name of a file."""
    if source is not None and not isinstance(source, str | Path):
        raise InvalidSettings(
            f"a store cannot be opened from {type(source).__name__}",
            remedy="give a path, an address such as postgresql://…, a YAML settings file or a record store",
        )


def _settings_file(source: str | Path | None, configured: str | None) -> Path | None:
    if source is not None and str(source).endswith((".yaml", ".yml")):
        return Path(source)
    return Path(configured) if configured and source is None else None


def _environment(variables: Mapping[str, str]) -> Values:
    values: Values = {}
    known = {*Settings.model_fields, "config", "profile"}
    for name, value in variables.items():
        path = name.removeprefix(PREFIX).lower().split("__")
        if name.startswith(PREFIX) and path[0] not in known:
            _suspect_typo(name, path[0], known)
        elif name.startswith(PREFIX):
            inner = values
            for part in path[:-1]:
                if not isinstance(inner.get(part), dict):
                    inner[part] = _shorthand(part, inner[part]) if part in inner else {}
                inner = inner[part]
            if isinstance(inner.get(path[-1]), dict):
                inner[path[-1]] |= _shorthand(path[-1], value)
                continue
            is_list = path[-1] in _LISTS and path != ["secrets"]  # `connections.secrets` are several
            inner[path[-1]] = [one for one in value.split(",") if one] if is_list else value
    return values


def _shorthand(name: str, value: str) -> dict[str, str]:
    return read_vectors(value) if name == "vectors" else {"provider": value}


def _suspect_typo(name: str, part: str, known: set[str]) -> None:
    near = get_close_matches(part, known, n=1, cutoff=0.8)
    if near:
        raise InvalidSettings(
            f"the environment variable {name} is not a setting", remedy=f"did you mean {PREFIX}{near[0].upper()}?"
        )


_LISTS = {"kinds", "citation_roots", "folders", "hosts", "proxies", "secrets", "secrets_allow", "secrets_also"}


def _from_yaml(path: Path) -> Values:
    values = read_yaml(path)
    refuse_readable_key(path, values)
    return _beside(path, values)


def _beside(path: Path, values: Values) -> Values:
    """Relative paths in a settings file lie beside it, wherever one stands."""
    for name in ("store", "objects", "objects_cache"):
        if values.get(name) and "://" not in str(values[name]):
            values[name] = str(path.parent / Path(str(values[name])).expanduser())
    if values.get("api_key_file"):
        values["api_key_file"] = path.parent / Path(str(values["api_key_file"])).expanduser()
    backups = values.get("backups")
    if isinstance(backups, dict) and backups.get("to") and "://" not in str(backups["to"]):
        backups["to"] = str(path.parent / Path(str(backups["to"])).expanduser())
    if isinstance(values.get("vectors"), str):
        values["vectors"] = read_vectors(values["vectors"])
    for part, name in _PATHS:
        inner = values.get(part)
        if isinstance(inner, dict) and inner.get(name):
            inner[name] = path.parent / Path(str(inner[name])).expanduser()
    return values


_PATHS = (
    ("vectors", "path"),
    ("vectors", "secret_file"),
    ("embedder", "api_key_file"),
    ("incoming_embedder", "api_key_file"),
    ("language_model", "api_key_file"),
)


def _merged(base: Values, over: Mapping[str, object]) -> Values:
    merged = dict(base)
    for name, value in over.items():
        known = merged.get(name)
        if isinstance(value, Mapping) and isinstance(known, Mapping):
            merged[name] = _merged(dict(known), value)
        else:
            merged[name] = value
    return merged
