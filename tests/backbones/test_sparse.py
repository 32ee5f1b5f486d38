"""The message-passing backbones on jraph.GraphsTuple: same parameters, same logits."""

import jax
import jraph
import numpy as np
import pytest

from fgw_jax import Batch, backbones
from fgw_jax.errors import InputError
from tests.helpers import random_graph


def graphs_of(rng):
    return [random_graph(rng, n, p=0.5, weighted=True) for n in (6, 1, 9)]


def model_of(name, batch):
    model = backbones.make(name, num_classes=2, hidden=8, num_layers=2)
    return model, jax.jit(model.init)(jax.random.key(0), batch), jax.jit(model.apply)


@pytest.mark.parametrize("name", ["vgcn", pytest.param("vgin", marks=pytest.mark.slow)])
def test_sparse_and_padded_agree(name, rng):
    graphs = graphs_of(rng)
    batch = Batch.stack(graphs, 11)
    model, variables, apply = model_of(name, batch)
    dense = apply(variables, batch)
    tuples = jraph.batch_np([graph.to_jraph() for graph in graphs])
    np.testing.assert_allclose(apply(variables, tuples), dense, rtol=1e-5, atol=1e-5)
    padded = jraph.pad_with_graphs(tuples, n_node=24, n_edge=64, n_graph=5)
    np.testing.assert_allclose(apply(variables, padded)[:3], dense, rtol=1e-5, atol=1e-5)

    @jax.jit
    def step(params, inputs):
        def loss(params):
            logits, changed = model.apply(
                {**variables, "params": params},
                inputs,
                train=True,
                mutable=["batch_stats"],
                rngs={"dropout": jax.random.key(0)},
            )
            return logits.sum(), changed

        return jax.grad(loss, has_aux=True)(params)

    for a, b in zip(
        jax.tree.leaves(step(variables["params"], batch)),
        jax.tree.leaves(step(variables["params"], tuples)),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_plain_arrays_of_nodes_and_edges_are_read(rng):
    graph = graphs_of(rng)[0]
    model, variables, apply = model_of("vgcn", Batch.stack([graph], 11))
    ours = graph.to_jraph()
    plain = ours._replace(nodes=ours.nodes["features"], edges=ours.edges["weight"][:, None])
    np.testing.assert_allclose(apply(variables, plain), apply(variables, ours), atol=1e-6)
    unweighted = apply(variables, plain._replace(edges=None))
    assert np.abs(unweighted - apply(variables, ours)).max() > 1e-4
    with pytest.raises(InputError, match="one number per edge"):
        model.apply(variables, plain._replace(edges=np.ones((3, 2))))
