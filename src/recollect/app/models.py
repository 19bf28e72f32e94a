"""The models: embedders and the language model that the settings name."""

from __future__ import annotations

from typing import cast

from recollect.app.plugins import made
from recollect.errors import InvalidSettings, MissingExtra
from recollect.ports.models import Embedder, LanguageModel
from recollect.settings import EmbedderSettings, LanguageModelSettings, Settings, secret


def embedders_of(settings: Settings, own: Embedder | None) -> tuple[Embedder, ...]:
    serving = own if own is not None else embedder_of(settings.embedder)
    incoming = embedder_of(settings.incoming_embedder) if settings.incoming_embedder else None
    chosen = [one for one in (serving, incoming) if one is not None]
    if len(chosen) == 2 and chosen[0].model == chosen[1].model:
        raise InvalidSettings("embedder and incoming_embedder are the same model", remedy="remove incoming_embedder")
    return tuple(chosen)


def embedder_of(settings: EmbedderSettings) -> Embedder | None:
    if settings.provider == "none":
        return None
    if settings.provider == "hash":
        from recollect.adapters.models.hash import HashEmbedder

        return HashEmbedder(settings.dimensions or 64)
    if settings.provider == "openai":
        return _endpoint(settings)
    if settings.provider != "minilm":
        return cast(Embedder, made("recollect.embedders", settings.provider, Embedder, settings))
    try:
        from recollect.adapters.models.minilm import MiniLM
    except ImportError:  # pragma: no cover - part of the base install
        raise MissingExtra("the built-in embedder is missing", remedy="pip install recollect") from None
    return MiniLM(threads=settings.threads)


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
