"""LangChain's vector store on our memories: documents that are recalled, cited and checked like any memory.

    store = RecollectVectorStore(mem)
    store.add_documents([Document("Alice drinks green tea", metadata={"about": "tea"})])
    store.similarity_search("which tea?", k=3, filter={"about": "tea"})

A collection is a namespace of memories; its documents are in long-term memory too, so `recall` finds them. The id of a
memory is that of its document behind the name of the collection. Without `embedding` the memory's own model and ranking
find documents; with it, its vectors are stored beside the memories and alone decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from recollect.errors import DuplicateKey, InvalidInput, NotFound, Unsupported
from recollect.integrations.langchain.documents import details_of

if TYPE_CHECKING:
    from recollect.interfaces.client import Recollect
    from recollect.services.recall.hits import Hit

LONG_TERM = "long_term"
PAGE = 1000
AT_ONCE = 500


class RecollectVectorStore(VectorStore):
    """The documents of a collection. With `details`, what Recollect knows of one stands in its metadata under
    "recollect": status, citations, score, why.
    """

    def __init__(
        self,
        mem: Recollect,
        embedding: Embeddings | None = None,
        *,
        collection: str = "langchain",
        user: str | None = None,
        project: str | None = None,
        model: str | None = None,
        details: bool = False,
    ) -> None:
        self._mem = mem
        self._embedding = embedding
        self._collection = collection
        self._owners: dict[str, Any] = {
            name: id for name, id in (("user", user), ("project", project)) if id is not None
        }
        self._model = model or (f"{type(embedding).__name__}-{collection}" if embedding is not None else None)
        self._details = details

    @property
    def embeddings(self) -> Embeddings | None:
        return self._embedding

    # -- in ----------------------------------------------------------------------------------------------------------

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[Any, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Store texts; one whose id is known takes the place of what is there, which its history keeps."""
        contents = list(texts)
        given: Sequence[str | None] = ids if ids is not None else [None] * len(contents)
        about = metadatas if metadatas is not None else [{} for _ in contents]
        if not len(contents) == len(given) == len(about):
            raise InvalidInput("texts, metadatas and ids differ in number", remedy="give one of each for each text")
        vectors = self._embedding.embed_documents(contents) if self._embedding is not None and contents else []
        names = [id or str(uuid4()) for id in given]
        new: list[dict[str, Any]] = []
        for place, (name, text, metadata) in enumerate(zip(names, contents, about, strict=True)):
            vector = {"vector": vectors[place], "vector_model": self._model} if vectors else {}
            fields = {"content": text, "metadata": dict(metadata or {}), **vector}
            if given[place] is None or not self._replaced(self._id(name), fields):
                new.append({"id": self._id(name), "on_duplicate": "keep", **self._place(), **fields})
        for start in range(0, len(new), AT_ONCE):
            self._mem.remember_many([*new[start : start + AT_ONCE]])
        return names

    def _place(self) -> dict[str, Any]:
        return {"namespaces": [LONG_TERM, self._collection], **self._owners}

    def _replaced(self, id: str, fields: dict[str, Any]) -> bool:
        """Whether there is one to change. One that was forgotten comes back."""
        try:
            self._mem.revise(id, **fields)
        except NotFound:
            try:
                self._mem.restore(id)
            except (NotFound, DuplicateKey):
                return False
            self._mem.revise(id, **fields)
        return True

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool | None:
        """Delete documents for good; without ids, the collection. What is not there is no error."""
        for id in [self._id(name) for name in ids] if ids is not None else self._all():
            try:
                self._mem.erase(id)
            except NotFound:
                continue
        return True

    def _all(self) -> list[str]:
        found: list[str] = []
        after = None
        while True:
            page = self._mem.list(namespaces=[self._collection], limit=PAGE, after=after, **self._owners)
            found += [line.id for line in page.memories]
            after = page.next
            if after is None:
                return found

    # -- out ---------------------------------------------------------------------------------------------------------

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        found = []
        for id in ids:
            try:
                memory = self._mem.show(self._id(id))
            except NotFound:
                continue
            found.append(Document(page_content=memory.text, metadata=memory.metadata, id=id))
        return found

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, filter: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """With how well each answers, from 0 to 1. `filter` is on metadata, with our operators; other fields of
        `recall` can be given too."""
        vector = self._embedding.embed_query(query) if self._embedding is not None else None
        return [(self._document(hit), hit.match) for hit in self._found(query, vector, k, filter, kwargs)]

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Document]:
        self._needs_embedding()
        return [self._document(hit) for hit in self._found("vector", embedding, k, filter, kwargs)]

    def _found(
        self, query: str, vector: list[float] | None, k: int, filter: dict[str, Any] | None, more: dict[str, Any]
    ) -> list[Hit]:
        chosen = {"namespaces": [self._collection], "include_messages": False, **self._owners}
        by = {"vector": vector, "vector_model": self._model, "by": "meaning"} if vector is not None else {}
        return self._mem.recall(query, limit=k, **{**chosen, **by, "metadata": filter or {}, **more}).hits

    def _select_relevance_score_fn(self) -> Any:
        return lambda score: score

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """The best that differ from each other, by the vectors of `embedding`."""
        asked = self._needs_embedding().embed_query(query)
        return self.max_marginal_relevance_search_by_vector(asked, k, fetch_k, lambda_mult, **kwargs)

    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        import numpy

        model = self._needs_embedding()
        found = self.similarity_search_by_vector(embedding, fetch_k, **kwargs)
        vectors = model.embed_documents([one.page_content for one in found]) if found else []
        chosen = maximal_marginal_relevance(numpy.array(embedding), vectors, lambda_mult, k) if vectors else []
        return [found[place] for place in chosen]

    def _needs_embedding(self) -> Embeddings:
        if self._embedding is None:
            raise Unsupported("this needs vectors of a model of yours", remedy="give the store an embedding")
        return self._embedding

    def _document(self, hit: Hit) -> Document:
        details = {"recollect": {"id": hit.id, **details_of(hit)}} if self._details else {}
        name = hit.id.removeprefix(f"{self._collection}:")
        return Document(page_content=hit.text, metadata={**hit.metadata, **details}, id=name)

    def _id(self, name: str) -> str:
        return f"{self._collection}:{name}"

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None,
        metadatas: list[dict[Any, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        mem: Recollect | None = None,
        **kwargs: Any,
    ) -> RecollectVectorStore:
        """A store with these texts, in the open memory `mem`."""
        if mem is None:
            raise InvalidInput("the open memory is missing", remedy="give mem=recollect.open(…)")
        store = cls(mem, embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store
