"""mem0's interface on Recollect: change `from mem0 import Memory` to `from recollect.integrations.mem0 import Memory`.

`Memory` and `AsyncMemory` are as those of mem0's open-source package, on an open memory; `MemoryClient` and
`AsyncMemoryClient` as those of its platform, on a Recollect service. Nothing of mem0 is needed. Checked against mem0ai
2.2.1: the signatures and the members of replies are kept in `tests/integrations/mem0_2_2_1.json`.
"""

from recollect.integrations.mem0.memory import AsyncMemory, Memory
from recollect.integrations.mem0.platform import AsyncMemoryClient, MemoryClient

__all__ = ["AsyncMemory", "AsyncMemoryClient", "Memory", "MemoryClient"]
