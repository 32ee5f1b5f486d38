"""Training: the step, the loop, checkpoints, metrics."""

from fgw_jax.training import metrics
from fgw_jax.training.config import Config
from fgw_jax.training.loop import Result, fit, fit_many, predict

__all__ = ["Config", "Result", "fit", "fit_many", "metrics", "predict"]
