"""Features brought to one scale."""

import warnings

import numpy as np
import pytest

from fgw_jax import Graph, Relaxed, Strict, distance, distances
from fgw_jax.errors import InputError
from fgw_jax.fgw import scale_features


@pytest.mark.parametrize("target", [1.0, 9.0])
def test_the_mean_squared_distance_of_two_nodes_is_the_target(rng, target):
    graphs = [Graph.from_edges([(0, 1)], n, rng.normal(size=(n, 3))) for n in (3, 5, 8)]
    rows = np.concatenate([g.features for g in scale_features(graphs, target)])
    distances = ((rows[:, None] - rows[None]) ** 2).sum(-1)
    np.testing.assert_allclose(distances.mean(), target, rtol=1e-5)


def test_features_that_are_all_alike_stay_as_they_are():
    graph = Graph.from_edges([(0, 1)], 2, [3.0, 3.0])
    (scaled,) = scale_features([graph])
    np.testing.assert_array_equal(scaled.features, graph.features)


@pytest.mark.filterwarnings("ignore:.*scale_features")
@pytest.mark.parametrize(
    "solver", [Strict(method="mirror"), Strict(), Relaxed()], ids=["mirror", "cg", "relaxed"]
)
def test_values_grow_with_the_square_of_the_scale_however_large_or_small(solver, rng):
    """Squares of gradients overflow, or vanish, long before the values do."""
    upper = np.triu(rng.random((2, 12, 12)) < 0.4, 1).astype(float)
    features = rng.normal(size=(2, 12, 3))
    graphs = lambda scale: [  # noqa: E731
        Graph.from_adjacency(scale * (a + a.T), scale * x)
        for a, x in zip(upper, features, strict=True)
    ]
    one = float(distance(*graphs(1.0), alpha=0.5, solver=solver).value)
    for scale in (1e10, 1e-10):
        found = distance(*graphs(scale), alpha=0.5, solver=solver)
        assert float(found.value) / scale**2 == pytest.approx(one, rel=0.1)


def test_a_target_that_is_not_positive_is_named():
    with pytest.raises(InputError, match="target: must be positive"):
        scale_features([Graph.from_edges([(0, 1)], 2, [0.0, 1.0])], 0.0)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_structure_that_features_dwarf_is_warned_of_and_scaling_helps(scale):
    graphs = [
        Graph.from_edges([(0, 1)], 2, [0.0, width], edge_weights=[scale]) for width in (1e4, 2e4)
    ]
    with pytest.warns(UserWarning, match="scale_features"):
        distances(graphs[:1], graphs[1:])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        distances(*np.split(np.array(scale_features(graphs, scale**2), object), 2))
