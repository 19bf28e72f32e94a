"""Which passage of a long memory answers: the likest by meaning and by words, to be shown beside the whole text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recollect.domain.text.passages import Passage, passages
from recollect.domain.text.questions import Question
from recollect.domain.text.tokenizer import terms_asked, terms_of
from recollect.services.recall.candidates import Pool


def best_passages(pool: Pool, question: Question, texts: Mapping[str, str]) -> dict[str, Passage]:
    """The passage of each long text that answers best; a text that is one passage has none to show."""
    cuts = {id: found for id, text in texts.items() if len(found := passages(text)) > 1}
    if not cuts:
        return {}
    near = _nearness(pool, list(cuts))
    terms = list(terms_asked(question.terms))
    best: dict[str, Passage] = {}
    for id, found in cuts.items():
        known = near.get(id) or dict.fromkeys(found, 0.0)
        shared = {one: _shared(terms, texts[id][one.start : one.end]) for one in known}
        best[id] = max(known, key=lambda one: (known[one] + shared[one], -one.start))
    return best


def _nearness(pool: Pool, ids: Sequence[str]) -> dict[str, dict[Passage, float]]:
    """How near in meaning each stored passage is; nothing where the question has no vector, or the past is asked."""
    near: dict[str, dict[Passage, float]] = {}
    if pool.vectors is None or pool.is_past:
        return near
    for (id, _, _, start, end), similarity in pool.vectors.compared(ids):
        if start is not None and end is not None:
            near.setdefault(id, {})[Passage(start, end)] = similarity
    return near


def _shared(terms: Sequence[str], text: str) -> float:
    """The share of the question's terms that stand in a passage."""
    within = terms_of([text])
    return sum(term in within for term in terms) / max(len(terms), 1)
