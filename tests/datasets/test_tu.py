"""The TU layout: what is read, how it is preprocessed, and which files are refused."""

import zipfile

import networkx
import numpy as np
import pytest

from fgw_jax.datasets import load, raw, tu
from fgw_jax.errors import DataError

# Two graphs: a path 1-2-3 with the isolated node 4, and a triangle 5-6-7 with a self-loop at 7.
FILES = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n2, 3\n5, 6\n6, 7\n7, 5\n7, 7\n",
    "graph_indicator": "1\n1\n1\n1\n2\n2\n2\n",
    "graph_labels": "1\n-1\n",
    "node_labels": "3\n9\n3\n7\n3\n3\n9\n",
    "node_attributes": "0.5, 1\n1.5, 2\n2.5, 3\n3.5, 4\n4.5, 5\n5.5, 6\n6.5e0, 7\n",
}


def write(folder, files=FILES, name="TINY"):
    (folder / name).mkdir(parents=True, exist_ok=True)
    for part, text in files.items():
        (folder / name / f"{name}_{part}.txt").write_bytes(text.encode())
    return folder


def change(**parts):
    """The files with some replaced; ``None`` removes one."""
    return {k: v for k, v in (FILES | parts).items() if v is not None}


def test_preprocessing_as_in_the_paper(tmp_path):
    data = load("TINY", write(tmp_path))
    path, triangle = data.graphs
    assert data.name == "TINY"
    assert data.labels.tolist() == [1, 0]  # -1 and 1 in sorted order
    assert data.num_classes == 2
    assert path.adjacency.tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]  # isolated node gone
    assert triangle.adjacency.tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]  # self-loop gone
    # labels 3, 7, 9: three columns, although 7 stood on the isolated node only
    assert path.features.tolist() == [[1, 0, 0], [0, 0, 1], [1, 0, 0]]
    assert triangle.features.tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 1]]
    np.testing.assert_allclose(path.weights, 1 / 3)
    assert path.structure is path.adjacency
    assert path.mask.all()


def test_attributes_when_asked_for(tmp_path):
    data = load("TINY", write(tmp_path), attributes=True)
    assert data.graphs[1].features[:, 3:].tolist() == [[4.5, 5], [5.5, 6], [6.5, 7]]
    bare = write(tmp_path / "bare", change(node_attributes=None))
    with pytest.raises(DataError, match="TINY has no node attributes; pass attributes=False"):
        load("TINY", bare, attributes=True)


def test_one_hot_degrees_where_there_are_no_labels(tmp_path):
    folder = write(tmp_path, change(node_labels=None))
    data = load("TINY", folder)
    assert data.graphs[0].features.tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0]]
    capped = load("TINY", folder, max_degree=1)
    assert capped.graphs[0].features.tolist() == [[0, 1], [0, 1], [0, 1]]


def test_structure_and_measure(tmp_path):
    data = load("TINY", write(tmp_path), structure="shortest_path", measure="degree")
    assert data.graphs[0].structure[0].tolist() == [0, 1, 2]
    assert data.graphs[0].weights.tolist() == [0.25, 0.5, 0.25]


def test_several_label_columns_regression_targets_and_whole_numbers_written_as_decimals(tmp_path):
    files = change(
        node_labels="0,5\n1,5\n0,5\n0,5\n0,6\n0,5\n0,5\n",
        graph_labels=None,
        graph_attributes="0.25\n-3\n",
        A=FILES["A"].replace("1, 2", "1.0,2.0"),
    )
    data = load("TINY", write(tmp_path, files))
    assert data.labels.tolist() == [[0.25], [-3]]
    assert data.graphs[0].features.tolist() == [[1, 0, 1, 0], [0, 1, 1, 0], [1, 0, 1, 0]]


def test_a_graph_without_edges_keeps_its_nodes(tmp_path):
    files = {"A": "2, 3\n", "graph_indicator": "1\n2\n2\n2\n", "graph_labels": "0\n1\n"}
    data = load("TINY", write(tmp_path, files))
    assert [g.num_nodes for g in data.graphs] == [1, 2]


def test_a_dataset_without_any_edge(tmp_path):
    files = {"A": "", "graph_indicator": "1\n2\n2\n", "graph_labels": "0\n0\n"}
    data = load("TINY", write(tmp_path, files))
    assert [g.adjacency.tolist() for g in data.graphs] == [[[0]], [[0, 0], [0, 0]]]
    assert data.num_classes == 1


def test_nodes_may_be_listed_in_any_order(tmp_path):
    files = {
        "A": "1, 3\n3, 5\n2, 4\n",
        "graph_indicator": "2\n1\n2\n1\n2\n",
        "graph_labels": "0\n1\n",
        "node_labels": "0\n1\n2\n3\n4\n",
    }
    data = load("TINY", write(tmp_path, files))
    assert data.graphs[0].features.argmax(1).tolist() == [1, 3]
    assert data.graphs[1].features.argmax(1).tolist() == [0, 2, 4]
    assert data.graphs[1].adjacency.tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize("ends", ["\r\n", "\r", "\n\n", " \n"])
def test_line_ends_edge_order_and_label_offsets_do_not_change_the_fingerprint(tmp_path, ends):
    one = tu.read(write(tmp_path / "one") / "TINY", "TINY", attributes=True)
    files = {part: text.replace("\n", ends) for part, text in FILES.items()}
    lines = files["A"].split(ends)
    files["A"] = ends.join(lines[::-1])
    files["graph_labels"] = ends.join(["2", "0", ""])
    other = tu.read(write(tmp_path / "other", files) / "TINY", "TINY", attributes=True)
    assert one.fingerprints() == other.fingerprints()


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("A", FILES["A"].replace("2, 3", "1, 3")),
        ("graph_labels", "1\n1\n"),
        ("node_labels", FILES["node_labels"].replace("7", "3")),
        ("graph_indicator", "1\n1\n1\n2\n2\n2\n2\n"),
    ],
)
def test_content_changes_the_fingerprint(tmp_path, part, text):
    one = tu.read(write(tmp_path / "one") / "TINY", "TINY")
    other = tu.read(write(tmp_path / "other", change(**{part: text})) / "TINY", "TINY")
    assert one.fingerprints() != other.fingerprints()


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ({"A": "1, 2\n3, 5\n"}, r"TINY_A\.txt, line 2: the edge joins nodes of two graphs"),
        ({"A": "1, 2\n\n3, 8\n"}, r"TINY_A\.txt, line 3: the node number lies outside 1\.\.7"),
        ({"A": "0, 2\n"}, r"TINY_A\.txt, line 1: the node number lies outside"),
        ({"A": "1, 2\n1, 2, 3\n"}, r"TINY_A\.txt, line 2: 3 columns where"),
        ({"A": "1, 2\n1\n"}, r"TINY_A\.txt, line 2: 1 columns where"),
        ({"A": "1, 2\n2, x\n"}, r"TINY_A\.txt, line 2: 'x' is not a number"),
        ({"A": "1, 2\n2, 1.5\n"}, r"TINY_A\.txt, line 2: '1.5' is not a whole number"),
        ({"A": "1, 2\n2,\n"}, r"TINY_A\.txt, line 2: '' is not a number"),
        ({"A": "1, 2\n2, nan\n"}, r"TINY_A\.txt, line 2: 'nan' is not a whole number"),
        ({"A": "1\n2\n"}, r"TINY_A\.txt: 1 columns, expected 2"),
        ({"A": None}, r"holds no file TINY_A\.txt"),
        ({"graph_indicator": None}, r"the file TINY_graph_indicator\.txt is missing"),
        ({"graph_labels": None}, r"the file TINY_graph_labels\.txt is missing"),
        ({"graph_labels": "1\n"}, r"graph_indicator\.txt, line 5: the graph number lies outside 1"),
        ({"graph_labels": "1\n2\n3\n"}, r"TINY_graph_indicator\.txt: graph 3 has no node"),
        ({"graph_labels": ""}, r"TINY_graph_indicator\.txt, line 1: the graph number lies outside"),
        ({"graph_indicator": ""}, r"TINY_graph_indicator\.txt: graph 1 has no node"),
        ({"graph_indicator": "0\n" + "1\n" * 6}, r"TINY_graph_indicator\.txt, line 1"),
        ({"node_labels": "1\n2\n"}, r"TINY_node_labels\.txt: 2 lines where there are 7 nodes"),
        (
            {"node_attributes": "1\n" * 6 + "inf\n"},
            r"TINY_node_attributes\.txt, line 7: NaN or",
        ),
        ({"node_attributes": "1\n" * 6}, r"TINY_node_attributes\.txt: 6 lines where"),
        ({"node_labels": "\xff\n" * 7}, r"TINY_node_labels\.txt, line 1: .* is not a number"),
    ],
)
def test_damaged_files_are_named_with_the_line_and_a_remedy(tmp_path, parts, named):
    folder = write(tmp_path, change(**parts))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match=named) as caught:
        load("TINY", folder, attributes=True)
    assert "again" in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_as_pyg_leaves_it_and_a_zip_of_bare_files(tmp_path):
    expected = load("TINY", write(tmp_path / "plain")).fingerprint()
    nested = tmp_path / "nested" / "TINY"
    nested.mkdir(parents=True)
    (write(tmp_path / "pyg") / "TINY").rename(nested / "raw")
    assert load("TINY", tmp_path / "nested").fingerprint() == expected
    with zipfile.ZipFile(tmp_path / "TINY.zip", "w") as archive:
        for file in (tmp_path / "plain" / "TINY").iterdir():
            archive.write(file, file.name)
    assert load("TINY", tmp_path).fingerprint() == expected


def test_built_graphs_equal_networkx(datasets_dir):
    data = load("MUTAG", datasets_dir)
    content = tu.read(datasets_dir / "MUTAG.zip", "MUTAG")
    whole = networkx.Graph()
    whole.add_edges_from(content.edges.tolist())
    parts = list(networkx.connected_components(whole))
    assert len(parts) == len(data)  # every molecule of MUTAG is connected
    for nodes, graph in zip(sorted(parts, key=min), data.graphs, strict=True):
        expected = networkx.to_numpy_array(whole.subgraph(nodes), sorted(nodes))
        np.testing.assert_array_equal(graph.adjacency, expected)


def test_build_of_flat_arrays_equals_from_edges(rng):
    from fgw_jax import Graph

    sizes = np.array([1, 4, 2])
    edges = np.array([[1, 2], [2, 4], [5, 6]])
    features = rng.normal(size=(7, 2))
    built = raw.build(sizes, edges, features, "shortest_path", "degree")
    options = {"structure": "shortest_path", "measure": "degree"}
    expected = [
        Graph.from_edges([], 1, features[:1], **options),
        Graph.from_edges([(0, 1), (1, 3)], 4, features[1:5], **options),
        Graph.from_edges([(0, 1)], 2, features[5:], **options),
    ]
    for one, other in zip(built, expected, strict=True):
        for name in ("structure", "features", "weights", "adjacency", "mask"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
            assert getattr(one, name).dtype == getattr(other, name).dtype
