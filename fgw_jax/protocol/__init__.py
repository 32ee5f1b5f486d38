"""Cross-validation: settings, the runner of folds, results, summaries, cost."""

from fgw_jax.protocol.settings import Settings, expand

__all__ = ["Settings", "expand"]
