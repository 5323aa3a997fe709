"""For those who test: a judge over a whole log, a clock to set, strategies, and a suite for any store.

`violations(store)` judges every recorded append again, by brute force. `ManualClock` is a clock
that tests move. `strandline.testing.strategies` has hypothesis strategies, and
`strandline.testing.conformance` the tests that every store passes (both: `pip install
'strandline[testing]'`).
"""

from .clock import ManualClock
from .oracle import Violation, violations

__all__ = ["ManualClock", "Violation", "violations"]
