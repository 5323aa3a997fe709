"""The parts in native code. What they do, Python does too, in more time: without a compiler the rest is installed."""

from setuptools import Extension, setup

NATIVE = [
    "strandline.native",
    "strandline.domain.native",
    "strandline.engine.sqlite.native",
    "strandline.engine.sqlite.plain",
    "strandline.engine.postgres.native",
]

SHARED = ["src/strandline/slots.pxd", "src/strandline/native.pxd"]

setup(
    ext_modules=[
        Extension(name, [f"src/{name.replace('.', '/')}.pyx"], depends=SHARED, optional=True)
        for name in NATIVE
    ]
    + [
        Extension(
            "strandline.engine.sqlite.system_calls",
            ["src/strandline/engine/sqlite/system_calls.c"],
            optional=True,
        )
    ]
)
