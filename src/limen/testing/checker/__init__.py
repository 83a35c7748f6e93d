"""Whether what was let through stayed within the limit, told from a log alone.

    checker = IntervalChecker("100/minute")
    checker.admitted("acme", 1, invoked_us, completed_us)
    checker.check()

An admission took effect at some moment between the call and its answer. So whatever was called at `a` or later and
answered at `b` or earlier lies within `[a, b]` for certain, and if it is more than `C + r·(b − a)` then the limit was
exceeded for certain: there are no false alarms. All such intervals are tried.
"""

from limen.testing.checker.checker import IntervalChecker
from limen.testing.checker.overshoot import Overshoot

__all__ = ["IntervalChecker", "Overshoot"]
