"""Two hypothesis profiles: a few fixed cases, or many of all checks with ``FGW_JAX_CASES=600``.

The number is the cases a check; ``experiments.trust`` has 40 checks, so that 600 make 24,000 cases.
Tests take a profile by name; none is loaded, the rest of the suite keeps its own settings.
"""

import os

from hypothesis import HealthCheck, settings

from experiments.trust import BATCH

_CASES = int(os.environ.get("FGW_JAX_CASES") or 0)
_COMMON = {
    "deadline": None,
    "database": None,
    # The first example compiles, and a failure is told by its seed, not by its size.
    "suppress_health_check": list(HealthCheck),
}
settings.register_profile("few", derandomize=True, max_examples=2, **_COMMON)
settings.register_profile("many", max_examples=max(1, -(-_CASES // BATCH)), **_COMMON)
