"""For those who test.

`given(…).when(command, …).then(event)` tests commands and projections without a store, `interfering(store, event)`
lets somebody else append between the read and the append of a decision. `violations(store)` judges
every recorded append again, by brute force. `ManualClock` is a clock that tests move. None of them needs
more than Strandline itself.

`strandline.testing.strategies` has hypothesis strategies, and `strandline.testing.conformance` the tests that
every store passes (both: `pip install 'strandline[testing]'`).
"""

from .clock import ManualClock
from .interference import Interference, interfering
from .oracle import Violation, violations
from .story import Decision, Story, given

__all__ = [
    "Decision",
    "Interference",
    "ManualClock",
    "Story",
    "Violation",
    "given",
    "interfering",
    "violations",
]
