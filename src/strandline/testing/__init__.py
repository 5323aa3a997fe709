"""For those who test.

`interfering(store, event)` lets somebody else append between the read and the append of a decision. `violations(store)` judges
every recorded append again, by brute force. `ManualClock` is a clock that tests move. None of them needs
more than Strandline itself.

`strandline.testing.strategies` has hypothesis strategies, and `strandline.testing.conformance` the tests that
every store passes (both: `pip install 'strandline[testing]'`).
"""

from .clock import ManualClock
from .interference import Interference, interfering
from .oracle import Violation, violations

__all__ = [
    "Interference",
    "ManualClock",
    "Violation",
    "interfering",
    "violations",
]
