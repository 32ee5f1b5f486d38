"""What each backbone can tell apart, on pairs of graphs with equal node features."""

import jax
import networkx as nx
import pytest

from fgw_jax import Batch, Graph, backbones

TRIANGLES_OR_HEXAGON = (
    nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)),
    nx.cycle_graph(6),
)
#: Every node of either has 3, 6, 6, 3, 1 nodes at distance 1 to 5, yet resistances differ.
DODECAHEDRON_OR_DESARGUES = (nx.dodecahedral_graph(), nx.desargues_graph())


def differences(name, pair):
    """Largest difference of representations, relative to their size, over four random models."""
    batch = Batch.stack([Graph.from_networkx(graph) for graph in pair])
    model = backbones.make(name, num_classes=2, hidden=8, num_layers=2)
    extras = model.prepare(batch)

    @jax.jit
    def compare(key):
        variables = model.init(key, batch, extras)
        first, second = model.apply(variables, batch, extras, method=model.encode)
        return abs(first - second).max() / abs(first).max()

    return max(float(compare(key)) for key in jax.random.split(jax.random.key(0), 4))


def colours(graph, distances, rounds=4):
    """Colour refinement over distances: the sorted colours of all nodes after some rounds."""
    colour = dict.fromkeys(graph, 0)
    for _ in range(rounds):
        seen = {
            v: (colour[v], tuple(sorted((distances(graph, v, u), colour[u]) for u in graph)))
            for v in graph
        }
        colour = {v: hash(seen[v]) for v in graph}
    return sorted(colour.values())


def test_the_pair_is_equal_to_refinement_over_shortest_paths():
    paths = lambda g, v, u: nx.shortest_path_length(g, v, u)  # noqa: E731
    ohms = {g: nx.resistance_distance(g) for g in DODECAHEDRON_OR_DESARGUES}
    resistance = lambda g, v, u: round(ohms[g][v][u], 6)  # noqa: E731
    first, second = DODECAHEDRON_OR_DESARGUES
    assert colours(first, paths) == colours(second, paths)
    assert colours(first, resistance) != colours(second, resistance)


@pytest.mark.parametrize(
    ("name", "pair", "separates"),
    [
        ("vgcn", TRIANGLES_OR_HEXAGON, False),
        ("vgin", TRIANGLES_OR_HEXAGON, False),
        ("graphormer", TRIANGLES_OR_HEXAGON, True),
        ("graphormer_gd", TRIANGLES_OR_HEXAGON, True),
        ("graphormer", DODECAHEDRON_OR_DESARGUES, False),
        ("graphormer_gd", DODECAHEDRON_OR_DESARGUES, True),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_a_backbone_sees(name, pair, separates):
    difference = differences(name, pair)
    assert difference > 1e-4 if separates else difference < 1e-5
