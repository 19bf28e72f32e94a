"""The models: embedders and the language model that the settings name."""

from __future__ import annotations

from typing import cast

from recollect.app.plugins import made
from recollect.domain.memory import LONG_TERM, Embedding, Memory
from recollect.errors import InvalidSettings
from recollect.ports.models import Embedder, LanguageModel, QueryRanker
from recollect.ports.query import Linked, Query, equal
from recollect.ports.records import RecordStore, Scope
from recollect.settings import EmbedderSettings, LanguageModelSettings, Settings, secret

BUILT_IN, FORMER = "built-in", "minilm"
MOST_LOOKED_AT = 100  # organizations, when a store is opened


def embedders_of(settings: Settings, own: Embedder | None, store: RecordStore) -> tuple[Embedder, ...]:
    serving = own if own is not None else embedder_of(settings.embedder)
    incoming = embedder_of(settings.incoming_embedder) if settings.incoming_embedder else None
    if own is None and incoming is None and settings.embedder.provider == BUILT_IN and is_from_before(settings, store):
        serving, incoming = embedder_of(settings.embedder.model_copy(update={"provider": FORMER})), serving
    chosen = [one for one in (serving, incoming) if one is not None]
    if len(chosen) == 2 and chosen[0].model == chosen[1].model:
        raise InvalidSettings("embedder and incoming_embedder are the same model", remedy="remove incoming_embedder")
    return tuple(chosen)


def is_from_before(settings: Settings, store: RecordStore) -> bool:
    """Whether memories have vectors of the former built-in model only: it serves them until `reindex` was run.

    Where there are very many organizations not all are looked at; then the settings name the model.
    """
    from recollect.adapters.models.memory_encoder import MemoryEncoder
    from recollect.adapters.models.minilm import MODEL

    organizations = dict.fromkeys([settings.organization, *store.tenants()])
    for organization in list(organizations)[:MOST_LOOKED_AT]:
        scope = Scope(organization)
        former = Query(Embedding, (equal("namespace", LONG_TERM), equal("model", MODEL)), limit=1)
        if store.select(scope, former, ("id",)) and store.select(scope, _without(MemoryEncoder.model), ("id",)):
            return True
    return False


def _without(model: str) -> Query[Memory]:
    return Query(Memory, (Linked(Embedding, "memory_id", (equal("model", model),), wanted=False),), limit=1)


def embedder_of(settings: EmbedderSettings) -> Embedder | None:
    if settings.provider == "none":
        return None
    if settings.provider == "hash":
        from recollect.adapters.models.hash import HashEmbedder

        return HashEmbedder(settings.dimensions or 64)
    if settings.provider == "openai":
        return _endpoint(settings)
    if settings.provider not in (BUILT_IN, FORMER):
        return cast(Embedder, made("recollect.embedders", settings.provider, Embedder, settings))
    from recollect.adapters.models.memory_encoder import MemoryEncoder
    from recollect.adapters.models.minilm import MiniLM

    return (MemoryEncoder if settings.provider == BUILT_IN else MiniLM)(
        threads=settings.threads, cached_questions=settings.cached_questions
    )


def question_encoder(embedders: tuple[Embedder, ...], threads: int) -> Embedder:
    """What reads questions about data: the model that the weights of asking were learned with."""
    from recollect.adapters.models.minilm import MODEL, MiniLM

    return next((one for one in embedders if one.model == MODEL), MiniLM(threads=threads))


def query_ranker() -> QueryRanker:
    """What compares questions about data with candidate queries; it reads its weights when it is first asked."""
    from recollect.adapters.models.query_ranker import QueryRanker

    return QueryRanker()


def _endpoint(settings: EmbedderSettings) -> Embedder:
    from recollect.adapters.models.openai_embeddings import OpenAICompatibleEmbedder

    if not settings.base_url or not settings.model:
        raise InvalidSettings(
            "the embedder needs a base_url and a model", remedy="set embedder.base_url and embedder.model"
        )
    return OpenAICompatibleEmbedder(
        base_url=settings.base_url,
        model=settings.model,
        api_key=secret(settings.api_key_env, settings.api_key_file),
        dimensions=settings.dimensions,
        cached_questions=settings.cached_questions,
    )


def language_model_of(settings: LanguageModelSettings, retries: int = 3) -> LanguageModel | None:
    if settings.provider == "none":
        return None
    if settings.provider != "openai":
        return cast(LanguageModel, made("recollect.language_models", settings.provider, LanguageModel, settings))
    from recollect.adapters.models.openai_chat import OpenAICompatibleModel

    if not settings.base_url or not settings.model:
        raise InvalidSettings(
            "the language model needs a base_url and a model",
            remedy="set language_model.base_url and language_model.model",
        )
    return OpenAICompatibleModel(
        base_url=settings.base_url,
        model=settings.model,
        api_key=secret(settings.api_key_env, settings.api_key_file),
        timeout_seconds=settings.timeout_seconds,
        retries=retries,
        temperature=settings.temperature,
    )
