"""The optional compiled scan kernel; everything else is in pyproject.toml.

`optional=True`: without a compiler the install goes on, and scan.py falls back to numpy with the same results.
"""

import sys

from setuptools import Extension, setup

kernel = Extension(
    "recollect.adapters.vectors.embedded._scan",
    sources=["src/recollect/adapters/vectors/embedded/_scan.c"],
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    py_limited_api=True,
    optional=True,
    extra_compile_args=["/O2"] if sys.platform == "win32" else ["-O3"],
)

setup(ext_modules=[kernel], options={"bdist_wheel": {"py_limited_api": "cp311"}})
