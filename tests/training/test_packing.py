"""Which rows a step takes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgw_jax import Graph, backbones
from fgw_jax.datasets import synthetic
from fgw_jax.errors import InputError
from fgw_jax.training import packing
from fgw_jax.training.pool import build, slot_labels, take

sizes_of = st.lists(st.integers(1, 90), min_size=1, max_size=120)


@settings(max_examples=40, deadline=None)
@given(sizes_of, st.integers(1, 40), st.integers(1, 7))
def test_a_plan_holds_every_graph_and_about_a_batch(sizes, batch_size, max_shapes):
    plan = packing.plan(sizes, batch_size, max_shapes=max_shapes)
    assert len(plan.sizes) <= max_shapes
    assert max(sizes) < plan.sizes[-1] <= max(sizes) + 4
    assert plan.batch_size == min(batch_size, len(sizes))
    assert plan.batch_size <= sum(plan.shares) <= plan.batch_size + len(plan.sizes)


@settings(max_examples=40, deadline=None)
@given(sizes_of, st.integers(1, 40), st.integers(1, 7))
def test_shared_blocks_hold_every_graph_once(sizes, batch_size, max_shapes):
    plan = packing.plan(sizes, batch_size, max_shapes=max_shapes, slots=(2, 4))
    graphs = [Graph.from_edges([], n) for n in sizes]
    blocks = plan.place(graphs)
    assert len(plan.sizes) <= max_shapes
    assert sorted(graph for _, block in blocks for graph in block) == list(range(len(sizes)))
    for kind, block in blocks:
        assert len(block) <= plan.slots <= 4
        assert sum(sizes[graph] + 1 for graph in block) <= plan.sizes[kind]


def test_shared_blocks_leave_hardly_a_row_empty():
    sizes = np.random.default_rng(0).geometric(1 / 25, 800) + 4
    rows = lambda plan: np.dot(plan.sizes, plan.shares) / plan.batch_size  # noqa: E731
    shared = rows(packing.plan(sizes, 128, slots=packing.SLOTS))
    apart = rows(packing.plan(sizes, 128))
    assert shared < 1.1 * (sizes + 1).mean() < apart


def test_plans_of_folds_and_grown_sets_share_shapes():
    data = synthetic(num_graphs=100)
    sizes = [graph.num_nodes for graph in data.graphs]
    plans = [
        packing.plan(sizes, 32),
        packing.plan(sizes[50:] + sizes[:50], 32),
        packing.plan(sizes, 32, extra=sizes[:20]),
    ]
    assert plans[0] == plans[1]
    assert {(plan.sizes, plan.shares) for plan in plans} == {(plans[0].sizes, plans[0].shares)}
    larger = packing.plan(sizes, 32, extra=[max(sizes) + 40])
    assert larger.sizes[-1] >= max(sizes) + 40


def test_shares_follow_a_grown_set_only_where_steps_would_be_empty():
    rng = np.random.default_rng(0)
    sizes = rng.integers(5, 60, 300).tolist()
    plain = packing.plan(sizes, 32)
    assert packing.plan(sizes, 32, trained=sizes) == plain
    assert packing.plan(sizes, 32, trained=sizes + sizes[:75]) == plain
    grown = sizes + 75 * [sizes[0]]
    followed = packing.plan(sizes, 32, trained=grown)
    assert followed.sizes == plain.sizes and followed.shares != plain.shares

    def steps(plan):
        rows = np.array(grown) + 1
        counts = np.bincount(np.searchsorted(plan.sizes, rows), minlength=len(plan.sizes))
        return (-(-counts // np.array(plan.shares))).max()

    assert steps(followed) <= -(-len(grown) // 32) < steps(plain) / 1.3
    assert packing.plan(sizes, 32, trained=grown[::-1][:370]) == followed


def test_large_graphs_come_in_smaller_batches():
    plan = packing.plan([600] * 64 + [20] * 64, 128, max_pairs=2**22)
    padded = np.array(plan.sizes)
    assert ((np.array(plan.shares) - 1) * padded**2).sum() <= 2**22
    assert plan.batch_size < 128
    one = packing.plan([30] * 1000 + [2060], 128, slots=packing.SLOTS)
    assert one.batch_size == 128  # a step of one graph each would not make the large one smaller
    assert one.rows[-1] <= 4 < one.rows[0]  # nor are blocks of its size to spare
    with pytest.raises(InputError, match="batch_size: 0"):
        packing.plan([5], 0)


MODEL = backbones.make("vgin", 2, hidden=4, num_layers=1)


@pytest.mark.parametrize("slots", [1, 4])
def test_an_epoch_takes_every_graph_of_a_set_once(slots):
    graphs = [Graph.from_edges([(0, n - 1)], n, np.full((n, 1), n)) for n in range(2, 42)]
    labels = np.eye(40, dtype=np.float32)
    plan = packing.plan(range(2, 42), 8, max_shapes=3, slots=(slots,))
    kept = graphs if slots == 1 else MODEL.quotients(graphs)
    sets = [(kept[:30], labels[:30]), (kept[20:], labels[20:])]
    pool, (first, second) = build(plan, sets, MODEL)
    assert sum(int(rows.filled.sum()) for rows in pool) >= 40

    @jax.jit
    def epoch(members, key):
        members = members.shuffled(key)
        steps = members.num_steps(plan)

        def body(step, seen):
            rows, _ = take(pool, members, plan, step, steps)
            labels, real = slot_labels(rows)
            # The rows a virtual node is joined to tell the size of its graph.
            joined = [
                jnp.take_along_axis(r.extras.blocks.sum(2), r.extras.virtual, 1) for r in rows
            ]
            sizes = jnp.concatenate([part.reshape(-1) for part in joined])
            count, order, filled, same = seen
            expected = (labels * (2 + jnp.arange(40))).sum(1)
            return (
                count + labels.sum(0),
                order + step * labels.sum(0),
                filled.at[step].set(real.sum()),
                same & (expected == jnp.where(real, sizes, 0)).all(),
            )

        start = (jnp.zeros(40), jnp.zeros(40), jnp.zeros(12, int), True)
        return jax.lax.fori_loop(0, steps, body, start)

    for members, expected in ((first, range(30)), (second, range(20, 40))):
        count, order, filled, same = epoch(members, jax.random.key(0))
        np.testing.assert_array_equal(count, np.isin(range(40), expected))
        assert same, "labels went with other graphs"
        used = filled[filled > 0]
        assert used.max() <= 8 + 3 * slots and used.max() - used.min() <= 3 * slots, "uneven steps"
        assert (epoch(members, jax.random.key(1))[1] != order).any(), "not shuffled"


@pytest.mark.parametrize(("sizes", "batch_size"), [([6] * 60 + [20] * 5, 2), ([9] * 99 + [900], 8)])
def test_no_step_is_without_a_graph(sizes, batch_size):
    """Blocks of several graphs are fewer than the steps of small batches would be."""
    graphs = [Graph.from_edges([(i, i + 1) for i in range(n - 1)], n) for n in sizes]
    kept = MODEL.quotients(graphs)
    nodes = [graph.num_nodes for graph in kept]
    plan = packing.plan(nodes, batch_size, slots=packing.SLOTS, max_pairs=2**14)
    labels = np.eye(2, dtype=np.float32)[np.zeros(len(kept), int)]
    pool, (members,) = build(plan, [(kept, labels)], MODEL)
    steps = int(members.num_steps(plan))
    taken = [
        int(slot_labels(take(pool, members, plan, step, steps)[0])[1].sum())
        for step in range(steps)
    ]
    assert min(taken) >= 1 and sum(taken) == len(sizes)


def test_rare_large_graphs_come_at_any_step():
    """Moments of a batch norm weigh late steps more: none may be the place of large graphs."""
    sizes = [8] * 90 + [60] * 3
    graphs = [Graph.from_edges([(0, 1)], n) for n in sizes]
    plan = packing.plan(sizes, 10)
    labels = np.eye(2, dtype=np.float32)[np.zeros(len(sizes), int)]
    pool, (members,) = build(plan, [(graphs, labels)], MODEL)
    steps = int(members.num_steps(plan))

    @jax.jit
    def large(key):
        shuffled = members.shuffled(key)
        return jnp.stack(
            [take(pool, shuffled, plan, step, steps)[0][-1].filled.sum() for step in range(steps)]
        )

    counts = np.array([large(jax.random.key(seed)) for seed in range(200)])
    assert (counts.sum(1) == 3).all() and counts.max() == 1
    assert np.abs(counts.mean(0) - 3 / steps).max() < 0.15
    first = np.flatnonzero(counts[0])
    assert np.diff(first).min() >= steps // 3, "not spread over the epoch"


def test_draws_whose_largest_graphs_differ_share_few_plans():
    """An augmentation that draws anew every few epochs must not compile anew each time."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(5, 60, 200).tolist()
    draws = [rng.integers(60, 130, rng.integers(0, 6)).tolist() for _ in range(40)]
    for slots in ((1,), packing.SLOTS):
        plans = [packing.plan(sizes, 32, extra=extra, slots=slots) for extra in draws]
        assert 2 <= len(set(plans)) <= 4
        for plan, extra in zip(plans, draws, strict=True):
            assert plan.sizes[-1] > max(extra, default=0)


def test_graphs_in_several_sets_take_one_block():
    data = synthetic(num_graphs=20)
    plan = packing.plan([graph.num_nodes for graph in data.graphs], 8)
    everything = (data.graphs, data.soft_labels())
    pool, members = build(plan, [everything, everything], MODEL)
    assert sum(int(rows.filled.sum()) for rows in pool) == 20
    other = (data.graphs, 1 - data.soft_labels())
    pool, _ = build(plan, [everything, other], MODEL)
    assert sum(int(rows.filled.sum()) for rows in pool) == 40
    assert dataclasses.is_dataclass(members[0])


def test_a_set_may_hold_a_graph_many_times():
    data = synthetic(num_graphs=20)
    plan = packing.plan([graph.num_nodes for graph in data.graphs], 8)
    often = data[np.repeat(np.arange(20), 10)]
    _, (members,) = build(plan, [(often.graphs, often.soft_labels())], MODEL)
    assert sum(map(int, members.counts)) == 200
