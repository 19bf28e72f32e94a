"""Why a memory is believed: its citations, the checks of them, and the statuses that follow."""
