"""What holds for every backbone; a new one joins by a row of ``backbones.BACKBONES``.

Covers fgw_jax.backbones.model, fgw_jax.backbones.vgcn, fgw_jax.backbones.vgin,
fgw_jax.backbones.graphormer, fgw_jax.backbones.graphormer_gd.
"""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgw_jax import Batch, Graph, backbones, interop
from fgw_jax.errors import InputError
from tests.helpers import permuted, random_graph

NAMES = list(backbones.BACKBONES)
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
SIZE = 12  # of most batches here: four graphs padded alike are one compiled program


def random_graphs(rng, sizes=(5, 9, 1, 12), width=3, weighted=True):
    return [random_graph(rng, n, width, weighted=weighted) for n in sizes]


def build(name, **options):
    """A small model with moments and norms off their initial values, so that mistakes show."""
    model = backbones.make(name, num_classes=3, hidden=8, num_layers=2, **options)
    batch = Batch.stack(random_graphs(np.random.default_rng(7)), SIZE)
    variables = jax.jit(model.init)(jax.random.key(0), batch)
    rng = np.random.default_rng(1)
    stir = lambda x: x + (0.3 * rng.random(x.shape)).astype(x.dtype)  # noqa: E731
    variables = jax.tree.map(stir, variables)
    logits = jax.jit(model.apply)
    return types.SimpleNamespace(
        name=name, model=model, variables=variables, logits=functools.partial(logits, variables)
    )


@pytest.fixture(params=NAMES, scope="module")
def backbone(request):
    return build(request.param)


def slow_for(*slow, names=NAMES):
    """The fixture ``backbone``, where some of them compile long and show what another one does."""
    rows = [pytest.param(n, marks=[pytest.mark.slow] if n in slow else []) for n in names]
    return pytest.mark.parametrize("backbone", rows, indirect=True)


def test_padding_changes_nothing(backbone, rng):
    graphs = random_graphs(rng)
    tight, wide = (backbone.logits(Batch.stack(graphs, size)) for size in (SIZE, 21))
    np.testing.assert_allclose(tight, wide, **TOLERANCE)


def test_batch_order_and_company_change_nothing(backbone, rng):
    graphs, others = random_graphs(rng), random_graphs(rng)
    logits = backbone.logits(Batch.stack(graphs, SIZE))
    backwards = backbone.logits(Batch.stack(graphs[::-1], SIZE))
    among_others = backbone.logits(Batch.stack([graphs[0], *others[1:]], SIZE))
    np.testing.assert_allclose(logits, backwards[::-1], **TOLERANCE)
    np.testing.assert_allclose(logits[0], among_others[0], **TOLERANCE)
    assert np.abs(logits[1] - among_others[1]).max() > 1e-3


def test_node_order_changes_nothing(backbone, rng):
    graph = random_graphs(rng, sizes=(12,))[0]
    order = rng.permutation(12)
    turned = permuted(graph, order)
    logits = backbone.logits(Batch.stack([graph, turned, graph, turned], SIZE))
    np.testing.assert_allclose(logits[0], logits[1], **TOLERANCE)


def test_groups_of_several_sizes_equal_one_batch(backbone, rng):
    graphs = random_graphs(rng)
    groups = [Batch.stack(graphs[:2], 10), Batch.stack(graphs[2:], SIZE)]
    extras = [backbone.model.prepare(group) for group in groups]
    whole = backbone.logits(Batch.stack(graphs, SIZE))
    np.testing.assert_allclose(backbone.logits(groups, extras), whole, **TOLERANCE)
    # Under jit the model derives for itself what it was not given.
    np.testing.assert_allclose(backbone.logits(groups), whole, **TOLERANCE)


@slow_for("vgin", names=["vgcn", "vgin"])
def test_blocks_for_large_graphs_count_where_they_hold_one(backbone, rng):
    small, large = random_graphs(rng), random_graphs(rng, sizes=(130,))
    groups = [Batch.stack(small, SIZE), Batch.stack(large, 130)]
    extras = [backbone.model.prepare(group) for group in groups]
    empty = [extras[0], jax.tree.map(np.zeros_like, extras[1])]

    @jax.jit
    def trained(params, extras):
        variables = {**backbone.variables, "params": params}
        out, _ = backbone.model.apply(
            variables, groups[: len(extras)], extras, train=True,
            method=backbone.model.encode, mutable=["batch_stats"],
        )  # fmt: skip
        return (out[: len(small)] ** 2).sum()

    slopes = jax.jit(jax.grad(trained))
    params = backbone.variables["params"]
    alone, left_out, with_it = (slopes(params, given) for given in (extras[:1], empty, extras))
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)  # noqa: E731
    jax.tree.map(close, left_out, alone)
    # Several large blocks are never left out: the same graph among them says what is right.
    crowd = [extras[0], jax.tree.map(lambda x: np.concatenate([x, 0 * x, 0 * x]), extras[1])]
    jax.tree.map(close, with_it, slopes(params, crowd))
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), with_it, alone)
    assert max(jax.tree.leaves(moved)) > 1e-2


def test_graphs_that_share_a_block_do_not_meet(backbone, rng):
    graphs = random_graphs(rng)
    if not backbone.model.packs:
        with pytest.raises(TypeError, match="does not define quotients"):
            backbone.model.quotients(graphs)
        with pytest.raises(TypeError, match="does not define pack"):
            backbone.model.pack([], 80, 4)
        return
    reduced = backbone.model.quotients(graphs)
    blocks = [backbone.model.pack([reduced[:3], reduced[3:]], 60, 3)]
    logits = backbone.logits([None], blocks).reshape(2, 3, -1)
    whole = backbone.logits(Batch.stack(graphs, SIZE))
    np.testing.assert_allclose(logits[0], whole[:3], **TOLERANCE)
    np.testing.assert_allclose(logits[1, 0], whole[3], **TOLERANCE)


@slow_for("graphormer")
def test_training_ignores_padding(backbone, rng):
    """Moments and gradients of a training step are those of the real nodes."""
    still = {"dropout": 0.0} | ({"attention_dropout": 0.0} if "graphormer" in backbone.name else {})
    model, variables = backbone.model.copy(**still), backbone.variables
    graphs = random_graphs(rng)

    @jax.jit
    def step(params, batch):
        def loss(params):
            logits, changed = model.apply(
                {**variables, "params": params}, batch, train=True, mutable=["batch_stats"]
            )
            return (logits[: len(graphs)] ** 2).mean(), changed

        return jax.grad(loss, has_aux=True)(params)

    empty = jax.tree.map(np.zeros_like, Batch.stack(graphs[:1], 21))
    wide = jax.tree.map(lambda a, b: np.concatenate([a, b]), Batch.stack(graphs, 21), empty)
    results = [step(variables["params"], batch) for batch in (Batch.stack(graphs, SIZE), wide)]
    for a, b in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_encode_then_classify_is_the_model(backbone, rng):
    batch = Batch.stack(random_graphs(rng), SIZE)
    model, variables = backbone.model, backbone.variables
    encode = jax.jit(lambda v, b: model.apply(v, b, method=model.encode))
    representations = encode(variables, batch)
    assert representations.shape == (4, 8)
    logits = model.apply(variables, representations, method=model.classify)
    np.testing.assert_allclose(logits, backbone.logits(batch), **TOLERANCE)


@slow_for("graphormer_gd")
def test_dropout_is_drawn_from_the_key(backbone, rng):
    batch = Batch.stack(random_graphs(rng), SIZE)

    @jax.jit
    def draw(seed):
        rngs = {"dropout": jax.random.key(seed)}
        return backbone.model.apply(
            backbone.variables, batch, train=True, mutable=["batch_stats"], rngs=rngs
        )[0]

    np.testing.assert_array_equal(draw(0), draw(0))
    assert np.abs(draw(0) - draw(1)).max() > 1e-3


def test_edge_weights(backbone, rng):
    """They count, except in Graphormer, which knows distances in edges only."""
    graph = random_graphs(rng, sizes=(8,), weighted=False)[0]
    half = Graph.from_adjacency(graph.adjacency / 2, graph.features)
    logits = backbone.logits(Batch.stack([graph, half, graph, half], SIZE))
    difference = np.abs(logits[0] - logits[1]).max()
    assert difference < 1e-5 if backbone.name == "graphormer" else difference > 1e-4


@pytest.mark.parametrize("name", ["vgcn", pytest.param("graphormer_gd", marks=pytest.mark.slow)])
def test_double_precision_when_enabled(name, rng, x64):
    double = build(name)
    assert {leaf.dtype for leaf in jax.tree.leaves(double.variables)} == {jnp.dtype("float64")}
    assert double.logits(Batch.stack(random_graphs(rng), SIZE)).dtype == jnp.float64


def test_wrong_use_is_told(rng):
    with pytest.raises(InputError, match="no such backbone 'gcn'.*vgcn"):
        backbones.make("gcn", 2)
    with pytest.raises(InputError, match="hidden: 0"):
        backbones.make("vgcn", 2, hidden=0)
    graph = random_graphs(rng)[0]
    for name in NAMES:
        with pytest.raises(InputError, match="inputs: expected a Batch"):
            backbones.make(name, 2).init(jax.random.key(0), [graph])
    with pytest.raises(InputError, match="hidden: 6 does not divide"):
        backbones.make("graphormer", 2, hidden=6).init(jax.random.key(0), Batch.stack([graph]))
    for argument in ("dropout", "attention_dropout"):
        with pytest.raises(InputError, match=f"{argument}: 1.5 is not a dropout rate"):
            backbones.make("graphormer", 2, **{argument: 1.5})
    repelled = Graph.from_adjacency([[0, -3], [-3, 0]], np.ones((2, 1)))
    for inputs in (Batch.stack([repelled]), interop.to_jraph(repelled)):
        with pytest.raises(InputError, match="edge weights of a node sum to -1 or less"):
            backbones.make("vgcn", 2).init(jax.random.key(0), inputs)
    negative = Graph.from_adjacency([[0, -1], [-1, 0]], np.ones((2, 1)))
    with pytest.raises(InputError, match="conductances"):
        backbones.make("graphormer_gd", 2).init(jax.random.key(0), Batch.stack([negative]))
