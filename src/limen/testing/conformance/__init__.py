"""What a store promises, and a judge of whether it keeps that.

Limits of the kit's own are asked of the store under test, for coroutines or not, and what it answers is held against
the arithmetic in `limen.core`. A promise is a sentence; a store that breaks it is told so in these words.
"""

from limen.testing.conformance.judge import STORE_PROMISES, store_conformance

__all__ = ["STORE_PROMISES", "store_conformance"]
