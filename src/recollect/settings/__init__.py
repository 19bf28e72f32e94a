"""The one settings object: what can be set (`schema`), where it is read from (`loading`), and secrets in it."""

from __future__ import annotations

from recollect.settings.loading import PREFIX as PREFIX
from recollect.settings.loading import Loaded as Loaded
from recollect.settings.loading import handed_on as handed_on
from recollect.settings.loading import load as load
from recollect.settings.loading import loaded as loaded
from recollect.settings.loading import received as received
from recollect.settings.loading import service_key as service_key
from recollect.settings.loading import written_secrets as written_secrets
from recollect.settings.schema import BackupSettings as BackupSettings
from recollect.settings.schema import ColdSettings as ColdSettings
from recollect.settings.schema import ConnectionSettings as ConnectionSettings
from recollect.settings.schema import EmbedderSettings as EmbedderSettings
from recollect.settings.schema import EvidenceSettings as EvidenceSettings
from recollect.settings.schema import KeepSettings as KeepSettings
from recollect.settings.schema import LanguageModelSettings as LanguageModelSettings
from recollect.settings.schema import RemoteSettings as RemoteSettings
from recollect.settings.schema import ServerSettings as ServerSettings
from recollect.settings.schema import Settings as Settings
from recollect.settings.schema import VectorSettings as VectorSettings
from recollect.settings.schema import checked_storage as checked_storage
from recollect.settings.secrets import secret as secret
from recollect.settings.secrets import secret_named as secret_named
from recollect.settings.secrets import secret_of as secret_of
from recollect.settings.secrets import shown as shown
from recollect.settings.secrets import wants_traces as wants_traces
