"""LangChain on Recollect: a retriever, a vector store and the history of a chat.

from recollect.integrations.langchain import RecollectChatMessageHistory, RecollectRetriever, RecollectVectorStore
"""

from recollect.errors import MissingExtra

try:
    import langchain_core.documents  # noqa: F401 - only to say plainly what is missing
except ImportError:
    raise MissingExtra("LangChain is not installed", remedy="pip install 'recollect[langchain]'") from None

from recollect.integrations.langchain.chat_history import RecollectChatMessageHistory
from recollect.integrations.langchain.retriever import RecollectRetriever
from recollect.integrations.langchain.vector_store import RecollectVectorStore

__all__ = ["RecollectChatMessageHistory", "RecollectRetriever", "RecollectVectorStore"]
