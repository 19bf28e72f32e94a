"""Chroma as the external system of a vector index: a server, or a folder that only this process uses.

One collection per place, with the facets as metadata, and one collection per store for its generations: there an entry
says up to which seq a generation was fed. Inner product: the vectors are of unit length, and a vector of zeros has no
cosine. Chroma keeps what is deleted in its files for a while, which is why only numbers ever go there.

Two processes on one folder would damage it silently, so it is locked for as long as it is open.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import chromadb
import httpx
import numpy as np
from chromadb.config import Settings
from chromadb.errors import ChromaError, NotFoundError, UniqueConstraintError
from numpy.typing import NDArray

from recollect.adapters.folder_lock import FolderLock
from recollect.adapters.vectors.external.port import Entry, FacetHashes, Generation, GenerationDeleted, next_name
from recollect.errors import Closed, IndexFailed, InvalidSettings, RecollectError, StoreBusy
from recollect.ports.vectors import FACETS

# Chroma's own types refuse what its methods take (lists of arrays, a configuration) and leave out `close`.
Client = Any
Collection = Any
PREFIX = "recollect"
_BATCH = 1000
_LISTED = 1000
# At 20,000 x 384 the ten nearest were all found under filters of 50, 10 and 1%.
_GRAPH = {"space": "ip", "ef_construction": 128, "max_neighbors": 24, "ef_search": 128}
_CONNECT_SECONDS, _SEARCH_SECONDS, _WRITE_SECONDS = 3.0, 10.0, 60.0  # a person waits for a search, nobody for the rest
_WRITES = ("/upsert", "/delete")
_REMEDY = "check that the server runs and vectors.url names it; memories are safe, and the index catches up by itself"


class Chroma:
    most_dimensions = 16_000
    exact_rows = 500  # asking for their ids costs 4 ms and searching among them 16 (20,000 x 384, a filter of 1%)

    def __init__(self, *, url: str | None = None, path: Path | None = None, token: str | None = None) -> None:
        self._url = url
        self._path = path
        self._token = token
        self._held = ExitStack()
        self._client: Client | None = None
        self._closed = False
        self._collections: dict[str, Collection] = {}
        if path is not None:
            self.label = f"Chroma in '{path}'"
            if not self._held.enter_context(FolderLock(path).hold()):
                self._held.close()
                raise StoreBusy(
                    f"another process uses the vector index in '{path}'",
                    remedy="close it, or run a Chroma server and name it in vectors.url",
                )
        else:
            self.label = f"Chroma at {_host_and_port(url or '')}"

    # -- generations -------------------------------------------------------------------------------------------------

    def current(self, store: str) -> Generation | None:
        with self._our_errors():
            noted = self._generations(store)
            whole = [name for name, metadata in noted.items() if metadata["in_use"]]
            return Generation(store, max(whole), int(noted[max(whole)]["fed"])) if whole else None

    def begin(self, store: str) -> Generation:
        with self._our_errors():
            name = next_name(time.time_ns(), max(self._generations(store), default=None))
            control = self._opened().get_or_create_collection(_control(store), embedding_function=None)
            control.upsert(ids=[name], embeddings=[[0.0]], metadatas=[{"fed": "0", "in_use": False}])
            return Generation(store, name, 0)

    def use(self, generation: Generation) -> None:
        with self._our_errors():
            self._told(generation, in_use=True)
            older = [name for name in self._generations(generation.store) if name < generation.name]
            if older:
                self._opened().get_collection(_control(generation.store), embedding_function=None).delete(ids=older)
            for name in self._names(f"{_control(generation.store)}-"):
                if name.split("-")[2] < generation.name:
                    self._delete_collection(name)

    def note(self, generation: Generation, fed: int) -> None:
        with self._our_errors():
            self._told(generation, fed=str(fed))

    def _told(self, generation: Generation, **facts: str | bool) -> None:
        """Changes what is known of a generation, and nothing if it was deleted."""
        try:
            control = self._opened().get_collection(_control(generation.store), embedding_function=None)
            control.update(ids=[generation.name], metadatas=[facts])
        except NotFoundError:
            raise GenerationDeleted from None

    def _generations(self, store: str) -> dict[str, dict[str, str | bool]]:
        try:
            control = self._opened().get_collection(_control(store), embedding_function=None)
            noted = control.get(include=["metadatas"])
        except NotFoundError:
            return {}
        return dict(zip(noted["ids"], noted["metadatas"], strict=True))

    # -- entries -----------------------------------------------------------------------------------------------------

    def add(self, generation: Generation, place: str, entries: Sequence[Entry]) -> None:
        with self._our_errors():
            collection = self._collection(generation, place) or self._make(generation, place)
            for start in range(0, len(entries), _BATCH):
                some = entries[start : start + _BATCH]
                with self._noticing(generation, place):
                    collection.upsert(
                        ids=[str(entry.seq) for entry in some],
                        embeddings=np.stack([entry.vector for entry in some]),
                        metadatas=[dict(zip(FACETS, entry.facets, strict=True)) for entry in some],
                    )

    def remove(self, generation: Generation, place: str, seqs: Sequence[int]) -> None:
        with self._our_errors():
            collection = self._collection(generation, place)
            if collection is None:
                return
            for start in range(0, len(seqs), _BATCH):
                with self._noticing(generation, place):
                    collection.delete(ids=[str(seq) for seq in seqs[start : start + _BATCH]])

    def within(self, generation: Generation, place: str, wanted: FacetHashes, most: int) -> list[int] | None:
        with self._our_errors():
            collection = self._collection(generation, place)
            if collection is None:
                return []
            with self._noticing(generation, place):
                ids = collection.get(where=_where(wanted), limit=min(most + 1, 1 << 30), include=[])["ids"]
            return [int(id) for id in ids] if len(ids) <= most else None

    def nearest(
        self, generation: Generation, place: str, wanted: FacetHashes, query: NDArray[np.float32], limit: int
    ) -> list[int]:
        with self._our_errors():
            collection = self._collection(generation, place)
            if collection is None:
                return []
            with self._noticing(generation, place):
                found = collection.query(
                    query_embeddings=[query], n_results=limit, where=_where(wanted), include=["distances"]
                )
            return [int(id) for id in found["ids"][0]]

    def places(self, generation: Generation) -> list[str]:
        with self._our_errors():
            start = _place_name(generation, "")
            names = self._names(start)
            # Asked afterwards: who deletes a generation says so before the first of its collections goes.
            if generation.name not in self._generations(generation.store):
                raise GenerationDeleted
            return [name.removeprefix(start) for name in names]

    def seqs(self, generation: Generation, place: str) -> Iterator[Sequence[int]]:
        for found in self._pages(generation, place, []):
            yield [int(id) for id in found["ids"]]

    def entries(self, generation: Generation, place: str) -> Iterator[Sequence[Entry]]:
        for found in self._pages(generation, place, ["embeddings", "metadatas"]):
            yield [
                Entry(int(id), tuple(str(metadata.get(facet)) for facet in FACETS), np.asarray(vector, np.float32))
                for id, metadata, vector in zip(found["ids"], found["metadatas"], found["embeddings"], strict=True)
            ]

    def tend(self, generation: Generation) -> None:
        """Chroma keeps its graphs by itself."""

    def examine(self) -> str:
        """What is there, in a sentence; makes nothing on a server."""
        with self._our_errors():
            return f"Chroma {self._opened().get_version()}"

    def close(self) -> None:
        self._closed = True
        self._drop_client()
        self._held.close()

    def _drop_client(self) -> None:
        """One that got no answer is made anew, which begins with a short question to the server."""
        client, self._client, self._collections = self._client, None, {}
        if client is not None:
            sessions = _sessions(client)
            client.close()
            for session in sessions:
                session.close()

    def _pages(self, generation: Generation, place: str, include: list[str]) -> Iterator[dict[str, list[Any]]]:
        offset = 0
        while True:
            with self._our_errors(), self._noticing(generation, place):
                collection = self._collection(generation, place)
                if collection is None:
                    return
                found = collection.get(limit=_BATCH, offset=offset, include=include)
            if not found["ids"]:
                return
            yield found
            offset += len(found["ids"])

    # -- collections -------------------------------------------------------------------------------------------------

    def _collection(self, generation: Generation, place: str) -> Collection | None:
        """None if nothing lies there yet; Gone if the generation is no longer in use."""
        name = _place_name(generation, place)
        if name not in self._collections:
            try:
                self._collections[name] = self._opened().get_collection(name, embedding_function=None)
            except NotFoundError:
                if generation.name not in self._generations(generation.store):
                    raise GenerationDeleted from None
                return None
        return self._collections[name]

    def _make(self, generation: Generation, place: str) -> Collection:
        name = _place_name(generation, place)
        try:
            made = self._opened().create_collection(name, embedding_function=None, configuration={"hnsw": _GRAPH})
        except UniqueConstraintError:
            made = self._opened().get_collection(name, embedding_function=None)
        self._collections[name] = made
        return made

    @contextmanager
    def _noticing(self, generation: Generation, place: str) -> Iterator[None]:
        """A collection that we knew and that is gone belonged to a generation that was deleted."""
        try:
            yield
        except NotFoundError:
            self._collections.pop(_place_name(generation, place), None)
            raise GenerationDeleted from None

    def _names(self, start: str) -> list[str]:
        names: list[str] = []
        while True:
            some = self._opened().list_collections(limit=_LISTED, offset=len(names))
            names += [one.name for one in some]
            if len(some) < _LISTED:
                return sorted(name for name in names if name.startswith(start))

    def _delete_collection(self, name: str) -> None:
        self._collections.pop(name, None)
        try:
            self._opened().delete_collection(name)
        except NotFoundError:
            return  # another process deleted it

    def _opened(self) -> Client:
        """The client; made on first use, since a server that is away must not keep a store from being opened."""
        if self._closed:
            raise Closed("the vector index is closed")
        if self._client is None:
            quiet = Settings(anonymized_telemetry=False)
            if self._path is not None:
                self._client = chromadb.PersistentClient(path=str(self._path), settings=quiet)
            else:
                self._client = _connected(self._url or "", self._token, quiet)
        return self._client

    @contextmanager
    def _our_errors(self) -> Iterator[None]:
        try:
            yield
        except (RecollectError, GenerationDeleted):
            raise
        except ChromaError as error:
            raise IndexFailed(f"{self.label} refused: {type(error).__name__}", remedy=_REMEDY) from error
        except (httpx.HTTPError, OSError, ValueError) as error:
            self._drop_client()
            # The client makes a ValueError of a server that it cannot reach when it is made.
            raise IndexFailed(f"{self.label} cannot be reached ({type(error).__name__})", remedy=_REMEDY) from error


def _connected(url: str, token: str | None, quiet: Settings) -> Client:
    parts = urlsplit(url)
    headers = {"Authorization": f"Bearer {token}", "X-Chroma-Token": token} if token else {}
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 8000)
    # Asked first, because the client would wait for ever for a server that takes the call and says nothing.
    httpx.get(f"{parts.scheme}://{parts.hostname}:{port}/api/v2/heartbeat", timeout=_CONNECT_SECONDS, headers=headers)
    client = chromadb.HttpClient(str(parts.hostname), port, ssl=secure, headers=headers, settings=quiet)
    for session in _sessions(client):
        session.timeout = httpx.Timeout(_WRITE_SECONDS, connect=_CONNECT_SECONDS)
        session.event_hooks = {"request": [_hasten]}
    return client


def _hasten(request: httpx.Request) -> None:
    if not request.url.path.endswith(_WRITES):
        request.extensions["timeout"] = httpx.Timeout(_SEARCH_SECONDS, connect=_CONNECT_SECONDS).as_dict()


def _sessions(client: Client) -> list[httpx.Client]:
    """Its HTTP sessions, which the client never closes; none for a folder."""
    holders = [getattr(one, "_server", None) for one in (client, getattr(client, "_admin_client", None))]
    return [session for holder in holders if (session := getattr(holder, "_session", None)) is not None]


def _host_and_port(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidSettings("vectors.url is not the address of a Chroma server", remedy="write http://host:8000")
    if parts.username or parts.password:
        raise InvalidSettings(
            "vectors.url contains credentials",
            remedy="put the secret into an environment variable and name it in vectors.secret_env",
        )
    return parts.netloc


def _control(store: str) -> str:
    return f"{PREFIX}-{store}"


def _place_name(generation: Generation, place: str) -> str:
    return f"{_control(generation.store)}-{generation.name}-{place}"


def _where(wanted: FacetHashes) -> dict[str, object] | None:
    tests: list[dict[str, object]] = [{facet: {"$in": list(values)}} for facet, values in wanted.items()]
    if len(tests) > 1:
        return {"$and": tests}
    return tests[0] if tests else None
