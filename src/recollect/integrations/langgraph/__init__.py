"""LangGraph on Recollect: a checkpointer, and a store for what agents keep.

from recollect.integrations.langgraph import RecollectSaver, RecollectStore
graph = builder.compile(checkpointer=RecollectSaver(mem), store=RecollectStore(mem))
"""

from recollect.errors import MissingExtra

try:
    import langgraph.checkpoint.base  # noqa: F401 - only to say plainly what is missing
except ImportError:
    raise MissingExtra("LangGraph is not installed", remedy="pip install 'recollect[langgraph]'") from None

from recollect.integrations.langgraph.saver import RecollectSaver
from recollect.integrations.langgraph.store import RecollectStore

__all__ = ["RecollectSaver", "RecollectStore"]
