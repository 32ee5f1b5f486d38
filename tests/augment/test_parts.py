"""New graphs in files: planned, made, found again, joined."""

import jax
import numpy as np
import pytest

from fgw_jax import Relaxed, datasets
from fgw_jax.augment import FGWMixup, Vanilla, parts
from fgw_jax.errors import DataError, InputError


def test_parts_are_made_once_and_joined(tmp_path):
    data = datasets.synthetic(num_graphs=10, size=6, seed=3)
    method, key = FGWMixup(solver=Relaxed()), jax.random.key(0)
    plan = parts.plan(method, key, data, 5, tmp_path / "new", part_size=3)
    assert [part.count for part in plan] == [3, 2]
    assert parts.make(method, key, data, plan) == 2
    assert parts.make(method, key, data, plan) == 0
    kept = plan[0].path.read_bytes()
    plan[1].path.unlink()
    seen = []
    assert parts.make(method, key, data, plan, progress=lambda p: seen.extend(p) or p) == 1
    assert seen == plan[1:] and plan[0].path.read_bytes() == kept
    made = parts.load(plan)
    assert len(made) == 5 and made.labels.shape == (5, 2)
    np.testing.assert_allclose(made.labels.sum(1), 1.0, atol=1e-6)
    assert made.origins[4].method == "fgwmixup"


def test_another_key_or_method_goes_to_other_files(tmp_path):
    data = datasets.synthetic(num_graphs=10, size=6, seed=3)
    plans = [
        parts.plan(method, jax.random.key(seed), data, 1, tmp_path)[0].path
        for method, seed in ((FGWMixup(), 0), (FGWMixup(), 1), (FGWMixup(alpha=0.5), 0))
    ]
    assert len(set(plans)) == 3


def test_wrong_plans_are_named(tmp_path):
    data = datasets.synthetic(num_graphs=10, size=6, seed=3)
    key = jax.random.key(0)
    with pytest.raises(InputError, match="method: only FGWMixup"):
        parts.plan(Vanilla(), key, data, 1, tmp_path)
    with pytest.raises(InputError, match="count: 0 new graphs"):
        parts.plan(FGWMixup(), key, data, 0, tmp_path)
    with pytest.raises(InputError, match="part_size"):
        parts.plan(FGWMixup(), key, data, 1, tmp_path, part_size=0)
    (tmp_path / "file").touch()
    planned = parts.plan(FGWMixup(), key, data, 1, tmp_path / "file")
    with pytest.raises(DataError, match="file.*cannot be written to"):
        parts.make(FGWMixup(), key, data, planned)
