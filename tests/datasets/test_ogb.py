"""OGB's csv layout: graphs, classes, scaffold split, and features on the scale of labels."""

import gzip

import numpy as np
import pytest

from fgw_jax.datasets import load, ogb
from fgw_jax.errors import DataError, InputError

# Three molecules: a bond and an isolated atom, a triangle, a single atom.
FILES = {
    "raw/num-node-list": "3\n3\n1\n",
    "raw/num-edge-list": "1\n3\n0\n",
    "raw/edge": "0,1\n0,1\n1,2\n2,0\n",
    "raw/node-feat": "5,0\n6,0\n16,0\n5,1\n7,0\n5,0\n34,0\n",
    "raw/graph-label": "1\n0\n1\n",
    "split/scaffold/train": "1\n",
    "split/scaffold/valid": "0\n",
    "split/scaffold/test": "2\n",
}


def write(folder, files=FILES, name="ogbg_moltiny"):
    for part, text in files.items():
        file = folder / name / f"{part}.csv.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(text.encode()))
    return folder


def change(**parts):
    renamed = {k.replace("__", "/").replace("_", "-"): v for k, v in parts.items()}
    return {k: v for k, v in (FILES | renamed).items() if v is not None}


@pytest.mark.parametrize("name", ["ogbg-moltiny", "ogbg_moltiny"])
@pytest.mark.parametrize("folder", ["ogbg_moltiny", "ogbg-moltiny", "tiny"])
def test_graphs_classes_and_split(tmp_path, name, folder):
    data = load(name, write(tmp_path, name=folder))
    assert data.name == "ogbg-moltiny"
    assert [g.adjacency.tolist() for g in data.graphs] == [
        [[0, 1, 0], [1, 0, 0], [0, 0, 0]],  # the isolated atom stays
        [[0, 1, 1], [1, 0, 1], [1, 1, 0]],
        [[0]],
    ]
    assert data.labels.tolist() == [1, 0, 1]
    assert data.split.train.tolist() == [1]
    assert data.split.validation.tolist() == [0]
    assert data.split.test.tolist() == [2]


def test_no_split_and_several_tasks(tmp_path):
    files = {k: v for k, v in FILES.items() if not k.startswith("split")}
    data = load("ogbg-moltiny", write(tmp_path, files | {"raw/graph-label": "1,0\n0,0\n1,1\n"}))
    assert data.split is None
    assert data.labels.tolist() == [[1, 0], [0, 0], [1, 1]]


@pytest.mark.parametrize("encoding", sorted(ogb.ENCODINGS))
def test_training_atoms_lie_at_mean_squared_distance_one(tmp_path, encoding):
    data = load("ogbg-moltiny", write(tmp_path), encoding=encoding)
    x = data.graphs[1].features.astype(float)  # the only training molecule
    assert ((x[:, None] - x[None]) ** 2).sum(-1).mean() == pytest.approx(1, rel=1e-5)


def test_scaling_is_the_documented_formula(tmp_path):
    raw = ogb.read(write(tmp_path) / "ogbg_moltiny")
    train = raw.attributes[3:6]
    scale = np.maximum(train.std(0), 0.5)
    scaled = (raw.attributes - train.mean(0)) / scale
    c = np.sqrt(2 * ((train.std(0) / scale) ** 2).sum())
    np.testing.assert_allclose(ogb.scaled(raw), scaled / c, rtol=1e-5)


def test_one_hot_has_a_block_a_column(tmp_path):
    rows = np.concatenate(
        [g.features for g in load("ogbg-moltiny", write(tmp_path), encoding="one_hot").graphs]
    )
    assert rows.shape == (7, 5 + 2)  # atoms 5, 6, 7, 16, 34; flags 0, 1
    assert ((rows > 0).sum(1) == 2).all()
    assert len(np.unique(rows)) == 2


def test_equal_atoms_do_not_divide_by_zero(tmp_path):
    data = load("ogbg-moltiny", write(tmp_path, change(raw__node_feat="5,0\n" * 7)))
    assert not np.concatenate([g.features for g in data.graphs]).any()


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        (
            {"raw__edge": "0,1\n0,1\n1,2\n2,3\n"},
            r"edge\.csv\.gz, line 4: the node number lies",
        ),
        ({"raw__edge": "0,1\n0,1\n1,2\n"}, r"edge\.csv\.gz: 3 lines where there are 4 edges"),
        ({"raw__edge": None}, r"holds no file raw/edge\.csv\.gz"),
        ({"raw__node_feat": "1,2\n" * 6}, r"node-feat\.csv\.gz: 6 lines where there are 7 nodes"),
        ({"raw__node_feat": "1,2\n" * 6 + "1\n"}, r"node-feat\.csv\.gz, line 7: 1 columns"),
        ({"raw__num_node_list": "3\n4\n0\n"}, r"num-node-list\.csv\.gz, line 3: a graph needs"),
        ({"raw__num_node_list": ""}, r"num-node-list\.csv\.gz: lists no graph"),
        ({"raw__num_edge_list": "1\n3\n"}, r"num-edge-list\.csv\.gz: 2 lines where there are 3"),
        ({"raw__num_edge_list": "1\n4\n-1\n"}, r"num-edge-list\.csv\.gz, line 3: a negative"),
        ({"raw__graph_label": "1\nnan\n0\n"}, r"graph-label\.csv\.gz, line 2: NaN"),
        ({"raw__graph_label": "1\n"}, r"graph-label\.csv\.gz: 1 lines where there are 3 graphs"),
        ({"split__scaffold__test": "3\n"}, r"test\.csv\.gz, line 1: the graph number lies outs"),
        ({"split__scaffold__test": "1\n"}, r"split/scaffold: .*two parts"),
        ({"split__scaffold__test": None}, r"some are missing"),
    ],
)
def test_damaged_files_are_named_with_a_remedy(tmp_path, parts, named):
    with pytest.raises(DataError, match=named) as caught:
        load("ogbg-moltiny", write(tmp_path, change(**parts)))
    assert "again" in str(caught.value)


def test_a_gz_that_is_cut_or_grows_beyond_its_bound(tmp_path):
    folder = write(tmp_path)
    file = folder / "ogbg_moltiny" / "raw" / "node-feat.csv.gz"
    whole = file.read_bytes()
    file.write_bytes(whole[:-9])
    with pytest.raises(DataError, match=r"node-feat\.csv\.gz: cannot be read"):
        load("ogbg-moltiny", folder)
    file.write_bytes(gzip.compress(b"0" * (80 << 20)))
    with pytest.raises(DataError, match=r"node-feat\.csv\.gz: .*unpacks to more than"):
        load("ogbg-moltiny", folder)


def test_other_ogb_names_are_refused():
    with pytest.raises(InputError, match="molecule datasets ogbg-mol"):
        load("ogbg-ppa")
    with pytest.raises(InputError, match=r"encoding: .*one_hot"):
        load("ogbg-molhiv", encoding="raw")
