"""FGWMixup's options: which pairs, which labels, which sizes, and graphs kept on disk.

Covers fgw_jax.augment.cache. What holds for every method is in test_common.py.
"""

import itertools

import jax
import numpy as np
import pytest

from fgw_jax import Dataset, augment
from fgw_jax.augment import cache
from fgw_jax.errors import InputError
from fgw_jax.midpoint import Median
from tests.helpers import labelled_graph

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return Dataset([labelled_graph(rng, n, 0.5) for n in (5, 6, 7, 8) * 3], [0, 1, 2] * 4)


def method(**options):
    return augment.make("fgwmixup_star", ratio=0.5, **options)


def made(data, **options):
    """The new graphs, as many as in test_common.py, so that the same programs run."""
    return method(**options)(KEY, data)[np.arange(12, 18)]


def parents(dataset):
    return np.array([origin.parents for origin in dataset.origins])


def test_pairs_come_from_the_classes_asked_for(data):
    classes = {pairs: data.labels[parents(made(data, pairs=pairs))] for pairs in ("within", "any")}
    assert (classes["within"][:, 0] == classes["within"][:, 1]).all()
    assert set(classes["within"][:, 0]) == {0, 1, 2}  # six graphs, two of each class
    drawn = parents(made(data, pairs="any"))
    assert (drawn[:, 0] != drawn[:, 1]).all()
    with pytest.raises(InputError, match="no class has two graphs"):
        method(pairs="within")(KEY, data[[0, 1, 2]])


def test_labels_by_distances_weigh_the_nearer_parent_more(data):
    by_ratio, by_distance = made(data), made(data, labels="distances", beta_k=0.2)
    assert by_ratio.fingerprint() != by_distance.fingerprint()
    for one, two in zip(by_ratio.graphs, by_distance.graphs, strict=True):
        np.testing.assert_array_equal(one.adjacency, two.adjacency)
    np.testing.assert_allclose(by_distance.labels.sum(1), 1, atol=1e-6)
    lams = np.array([origin.lam for origin in by_distance.origins])
    first = data.labels[parents(by_distance)[:, 0]]
    weights = by_distance.labels[np.arange(6), first]
    # A ratio near 0 or 1 puts the midpoint near one parent, and the label with it.
    assert np.corrcoef(weights, lams)[0, 1] > 0.9


def test_sizes_may_be_those_of_the_median_graph_or_a_number(data):
    for size, nodes in ((Median(), 6), (4, 4)):
        found = [graph.num_nodes for graph in made(data, size=size).graphs]
        # Nodes without an edge are dropped after decoding.
        assert max(found) <= nodes + (size != 4)


def test_dense_midpoints_are_drawn_again(data):
    complete = data.graphs[0].from_adjacency(1 - np.eye(6), np.eye(6)[:, :3])
    crowded = Dataset([*data.graphs[:6], *[complete] * 6], [0, 1] * 6)
    plain, redrawn = (method(redraw_dense=redraw).draw(KEY, crowded, 6) for redraw in (False, True))
    assert plain.num_redrawn == 0 < redrawn.num_redrawn
    dense = [sum(g.density > 0.9 for g in drawn.dataset.graphs) for drawn in (plain, redrawn)]
    assert dense[1] < dense[0]


def test_a_stream_has_no_end_and_no_repetition(data):
    first, second = itertools.islice(method().stream(KEY, data, 6), 2)
    assert len(first) == len(second) == 6
    assert first.fingerprint() != second.fingerprint()
    again = next(method().stream(KEY, data, 6))
    assert again.fingerprint() == first.fingerprint()


def test_graphs_kept_on_disk_are_found_by_all_that_decides_them(data, tmp_path):
    calls = []

    def remembered(data=data, key=KEY, **options):
        def make():
            calls.append(options)
            return data[:2]

        found = cache.remember(tmp_path, method(**options), key, data, make)
        assert found.fingerprint() == data[:2].fingerprint()
        return len(calls)

    assert [remembered(), remembered()] == [1, 1]
    assert remembered(refresh_every=3) == 1  # decides when, not what
    assert remembered(alpha=0.5) == 2
    assert remembered(beta_k=np.float64(0.3)) == 3
    assert remembered(solver=None) == 4
    assert remembered(size=Median()) == 5
    assert remembered(key=jax.random.key(1)) == 6
    assert remembered(data=data[::-1]) == 7
    for file in tmp_path.iterdir():
        file.write_bytes(b"damaged")
    assert [remembered(), remembered()] == [8, 8]


def test_a_method_with_a_folder_reads_what_it_made(data, tmp_path):
    method_ = method(cache=str(tmp_path))
    first = method_(KEY, data)
    (file,) = tmp_path.iterdir()
    before = file.stat().st_mtime_ns
    assert method_(KEY, data).fingerprint() == first.fingerprint()
    assert file.stat().st_mtime_ns == before
    assert method()(KEY, data).fingerprint() == first.fingerprint()
