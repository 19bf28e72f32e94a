"""The optional compiled kernels, and README.md for the package index; everything else is in pyproject.toml.

`optional=True`: without a compiler the install goes on, and kernels.py and word_counts.py fall back to numpy and Python
with the same results. RECOLLECT_KERNEL=none leaves the kernels out: `make release` makes its pure wheel so.
"""

import os
import re
import sys
import tomllib
from pathlib import Path

from setuptools import Extension, setup

HERE = Path(__file__).parent
RELATIVE_LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)\s]+)\)")


def readme_elsewhere() -> str:
    """README.md with the links into the checkout leading to the repository, as it was at this version."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    there = f"{project['urls']['Repository']}/blob/v{project['version']}"
    return RELATIVE_LINK.sub(rf"]({there}/\1)", (HERE / "README.md").read_text(encoding="utf-8"))


KERNELS = (
    "recollect.adapters.records.sqlite._log_writes",
    "recollect.adapters.vectors.embedded._scan",
    "recollect.domain.text.pool_words._words",
)
kernels = [
    Extension(
        name,
        sources=[f"src/{name.replace('.', '/')}.c"],
        define_macros=[("Py_LIMITED_API", "0x030B0000")],
        py_limited_api=True,
        optional=True,
        extra_compile_args=["/O2"] if sys.platform == "win32" else ["-O3"],
    )
    for name in KERNELS
]
with_kernels = {"ext_modules": kernels, "options": {"bdist_wheel": {"py_limited_api": "cp311"}}}

if __name__ == "__main__":
    setup(
        long_description=readme_elsewhere(),
        long_description_content_type="text/markdown",
        **({} if os.environ.get("RECOLLECT_KERNEL") == "none" else with_kernels),
    )
