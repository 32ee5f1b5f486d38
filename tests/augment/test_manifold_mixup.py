"""M-Mixup: convex combinations of real rows, labels alike."""

import jax
import numpy as np
import pytest

from fgw_jax import augment
from fgw_jax.errors import InputError


@pytest.fixture
def rows(rng):
    mask = np.array([True, False, True, True, False, True])
    representations = rng.normal(size=(6, 4)).astype(np.float32)
    representations[~mask] = np.nan  # padding lends nothing, not even this
    return representations, np.eye(6, dtype=np.float32), mask


def test_rows_and_labels_are_mixed_with_the_same_partner_and_weight(rows):
    representations, labels, mask = rows
    hook = jax.jit(augment.ManifoldMixup(beta_k=1.0).on_representations)
    mixed, soft = hook(jax.random.key(3), representations, labels, mask)
    soft = np.asarray(soft)
    np.testing.assert_allclose(soft.sum(1), 1, atol=1e-6)
    # Labels are unit vectors, so a soft label tells the weight of each row.
    expected = soft[mask][:, mask] @ representations[mask]
    np.testing.assert_allclose(np.asarray(mixed)[mask], expected, atol=1e-5)
    assert not soft[mask][:, ~mask].any()
    np.testing.assert_array_equal(soft[~mask], labels[~mask])
    # Every real row lends itself once: columns sum to lam + (1 - lam).
    np.testing.assert_allclose(soft[mask][:, mask].sum(0), 1, atol=1e-6)


def test_partners_and_weights_change_with_the_key(rows):
    representations, labels, mask = rows
    hook = jax.jit(augment.ManifoldMixup(beta_k=1.0).on_representations)
    soft = [np.asarray(hook(jax.random.key(k), representations, labels, mask)[1]) for k in range(9)]
    assert len({s.tobytes() for s in soft}) > 1


def test_the_weight_follows_its_beta_distribution():
    method = augment.ManifoldMixup(beta_k=0.2)
    x, labels, mask = np.ones((2, 1)), np.eye(2, dtype=np.float32), np.ones(2, bool)

    def weight(key):
        return method.on_representations(key, x, labels, mask)[1][0, 0]

    draws = np.asarray(jax.jit(jax.vmap(weight))(jax.random.split(jax.random.key(0), 4000)))
    # Half of the draws pair a row with itself (weight 1); the others have lam's moments.
    assert draws.mean() == pytest.approx(0.75, abs=0.02)
    variance = 0.25 / (2 * 0.2 + 1)
    assert (draws**2).mean() == pytest.approx(0.5 + 0.5 * (variance + 0.25), abs=0.02)


def test_a_parameter_that_no_beta_distribution_has_is_refused():
    with pytest.raises(InputError, match="beta_k"):
        augment.ManifoldMixup(beta_k=0.0)
