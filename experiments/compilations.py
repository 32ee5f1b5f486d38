"""How many programs a process compiled, how long that took, and how many it found on disk."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

_BUILT = "/jax/core/compile/backend_compile_duration"
_FOUND = "/jax/compilation_cache/cache_hits"


@dataclasses.dataclass
class Counts:
    """What JAX told so far.

    Attributes:
        requested: programs asked of the compiler.
        found: those of them read from the compilation cache.
        seconds: compiling and reading.
    """

    requested: int = 0
    found: int = 0
    seconds: float = 0.0

    @property
    def compiled(self) -> int:
        """Programs compiled anew."""
        return self.requested - self.found

    def __str__(self) -> str:
        return (
            f"{self.compiled} programs compiled, {self.found} read from the compilation cache, "
            f"{self.seconds:.1f} s in all"
        )


@functools.cache
def counts() -> Counts:
    """The counts of this process, from the first call on.

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
