"""Training: config, packing, the compiled step, `fit` and `predict`, metrics, checkpoints."""

from fgw_jax.training import metrics
from fgw_jax.training.config import Config
from fgw_jax.training.fit import Result, fit, predict

__all__ = ["Config", "Result", "fit", "metrics", "predict"]
