"""Cross-validation: settings, the fold runner, results, summaries and cost estimates."""

from fgw_jax.protocol.folds import FoldRunner, Job, jobs, run
from fgw_jax.protocol.results import Store
from fgw_jax.protocol.settings import Settings, expand
from fgw_jax.protocol.summary import ResultIndex, Summary

__all__ = [
    "FoldRunner", "Job", "ResultIndex", "Settings", "Store", "Summary", "expand", "jobs", "run",
]  # fmt: skip
