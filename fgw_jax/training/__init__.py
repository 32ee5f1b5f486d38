"""Training: the step, the loop, checkpoints, metrics."""

from fgw_jax.training import metrics
from fgw_jax.training.config import Config
from fgw_jax.training.fit import Result, fit, fit_many, predict
from fgw_jax.training.tuning import Tuned, tune

__all__ = ["Config", "Result", "Tuned", "fit", "fit_many", "metrics", "predict", "tune"]
