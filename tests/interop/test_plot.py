"""Pictures: legible, complete, written whole."""

import jax
import matplotlib.image
import numpy as np
import pytest

from fgw_jax import Graph, mixup, plot
from fgw_jax.errors import InputError
from tests.helpers import labelled_graph


@pytest.fixture(scope="module")
def sources():
    rng = np.random.default_rng(0)
    return labelled_graph(rng, 9), labelled_graph(rng, 12)


def test_midpoint_figure_shows_both_sources_and_the_midpoint(sources):
    mid = mixup(*sources, 0.4)
    figure = plot.midpoint(*sources, mid, 0.4)
    counts = [axis.collections[1].get_offsets().shape[0] for axis in figure.axes]
    assert counts[:2] == [9, 12] and counts[2] == mid.graph.num_nodes
    assert "0.40" in figure.axes[0].get_title() and "0.60" in figure.axes[1].get_title()
    labels = {int(k) for g in sources for k in g.features.argmax(1)}
    shown = {text.get_text() for text in figure.legends[0].get_texts()}
    assert {f"feature {k}" for k in labels} <= shown


def test_no_two_nodes_overlap(sources):
    mid = mixup(*sources, 0.4)
    figure = plot.midpoint(*sources, mid, 0.4)
    for axis in figure.axes:
        places = np.asarray(axis.collections[1].get_offsets())
        gaps = np.linalg.norm(places[:, None] - places[None], axis=-1)
        gaps[np.diag_indices_from(gaps)] = np.inf
        assert gaps.min() > 0.5


def test_matched_nodes_are_placed_alike(sources):
    graph = sources[0]
    mid = mixup(graph, sources[1], 1.0)
    places = plot.layout(mid.graph)
    moved = np.abs(plot.carried(places, mid.plans[0]) - places).max()
    assert moved < 0.05 * np.ptp(places)


def test_edgeless_and_disconnected_graphs_can_be_drawn():
    lonely = Graph.from_adjacency(np.zeros((3, 3)), np.eye(3))
    pieces = Graph.from_edges([(0, 1), (2, 3)], 5, np.eye(5)[:, :3])
    figure = plot.midpoint(lonely, pieces, mixup(lonely, pieces, 0.5), 0.5)
    assert len(figure.axes) == 3


@pytest.mark.slow
def test_padded_graphs_are_drawn_without_their_padding(sources):
    padded = [graph.pad(graph.num_nodes + 3 + i) for i, graph in enumerate(sources)]
    mids = mixup(*padded, 0.5), jax.jit(lambda a, b: mixup(a, b, 0.5))(*padded)
    for mid in mids:
        counts = [
            len(axis.collections[-1].get_offsets())
            for axis in plot.midpoint(*padded, mid, 0.5).axes
        ]
        assert counts[:2] == [graph.num_nodes for graph in sources]
        assert counts[2] == int(np.sum(mid.graph.mask)) < len(mid.graph.mask) or mid is mids[0]


def test_pictures_are_written_whole(tmp_path, sources):
    mid = mixup(*sources, 0.4)
    for name, figure in (("plan", plot.plan(mid.plans[0])), ("history", plot.history(mid))):
        path = plot.save(figure, tmp_path / f"{name}.png")
        image = matplotlib.image.imread(path)
        assert image.ndim == 3 and np.ptp(image) > 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["history.png", "plan.png"]
    assert plot.save(figure, tmp_path / "new" / "picture.svg").read_bytes().startswith(b"<?xml")
    (tmp_path / "plain").touch()
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode
    with pytest.raises(InputError, match="values"):
        plot.plan(np.zeros(3))
