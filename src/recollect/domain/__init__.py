"""What the words mean: pure types and rules, no input or output.

Importing this package registers every record type in `recollect.domain.record.RECORDS`.
"""

from recollect.domain import agents as agents
from recollect.domain import audit as audit
from recollect.domain import backups as backups
from recollect.domain import checkpoints as checkpoints
from recollect.domain import cold as cold
from recollect.domain import conversations as conversations
from recollect.domain import key_value as key_value
from recollect.domain import learning as learning
from recollect.domain import memory as memory
from recollect.domain import privacy as privacy
from recollect.domain import provenance as provenance
from recollect.domain import retention as retention
from recollect.domain import sources as sources
from recollect.domain import tenancy as tenancy
from recollect.domain import workspaces as workspaces
