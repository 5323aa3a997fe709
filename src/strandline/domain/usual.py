"""The usual decision in native code, where that was built: `native`, else None."""

from ..speedups import speedup

native = speedup("strandline.domain.native")
