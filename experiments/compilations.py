"""Counts of compiled and cached programs of a process, and the time they took."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

_BUILT = "/jax/core/compile/backend_compile_duration"
_FOUND = "/jax/compilation_cache/cache_hits"


@dataclasses.dataclass
class Counts:
    """Counts of the compilation events that JAX reported so far.

    Attributes:
        requested: programs requested.
        found: programs read from the compilation cache.
        seconds: time of compiling and reading.
    """

    requested: int = 0
    found: int = 0
    seconds: float = 0.0

    @property
    def compiled(self) -> int:
        """Programs compiled."""
        return self.requested - self.found

    def __str__(self) -> str:
        return (
            f"{self.compiled} programs compiled, {self.found} read from the compilation cache, "
            f"{self.seconds:.1f} s in total"
        )


@functools.cache
def counts() -> Counts:
    """The counts of this process since the first call.

    >>> import jax
    >>> before = counts().requested
    >>> float(jax.jit(lambda x: x * 2 + 17)(1.0))
    19.0
    >>> counts().requested > before
    True
    """
    import jax.monitoring

    found = Counts()

    def built(event: str, duration_secs: float, **kwargs: Any) -> None:
        if event == _BUILT:
            found.requested += 1
            found.seconds += duration_secs

    def read(event: str, **kwargs: Any) -> None:
        if event == _FOUND:
            found.found += 1

    jax.monitoring.register_event_duration_secs_listener(built)
    jax.monitoring.register_event_listener(read)
    return found
