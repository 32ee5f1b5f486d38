"""Datasets by name from a folder of real ones: the paper's figures, archives, fingerprints.

Covers fgw_jax.datasets.files, fgw_jax.datasets.loader, fgw_jax.datasets.raw,
fgw_jax.datasets.registry.
"""

import gzip
import json
import shutil
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fgw_jax.datasets import load, registry, synthetic
from fgw_jax.errors import DataError, InputError

# name: graphs, class counts, mean and largest nodes, mean undirected edges, feature width
PUBLISHED = {
    "PROTEINS": (1113, [663, 450], "39.05", 620, "72.82", 3),
    "NCI1": (4110, [2053, 2057], "29.76", 111, "32.30", 37),
    "NCI109": (4127, [2048, 2079], "29.57", 111, "32.13", 38),
    "IMDB-BINARY": (1000, [500, 500], "19.77", 136, "96.53", 136),
    "IMDB-MULTI": (1500, [500, 500, 500], "13.00", 89, "65.94", 89),
    "MUTAG": (188, [63, 125], "17.93", 28, "19.79", 7),
    "ogbg-molbace": (1513, [822, 691], "34.09", 97, "36.86", 9),
    "ogbg-molhiv": (41127, [39684, 1443], "25.51", 222, "27.47", 9),
}
SCAFFOLD = {
    "ogbg-molbace": ([730, 480], [21, 130], [71, 81]),
    "ogbg-molhiv": ([31669, 1232], [4032, 81], [3983, 130]),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_real_datasets_have_the_published_statistics(name, datasets_dir):
    data = load(name, datasets_dir)
    sizes = np.array([g.num_nodes for g in data.graphs])
    edges = np.array([np.count_nonzero(g.adjacency) for g in data.graphs]) / 2
    found = (
        len(data),
        np.bincount(data.labels).tolist(),
        f"{sizes.mean():.2f}",
        sizes.max(),
        f"{edges.mean():.2f}",
        data.num_features,
    )
    assert found == PUBLISHED[name]
    assert data.graphs[0].structure is data.graphs[0].adjacency  # held once
    if name in SCAFFOLD:
        parts = (data.split.train, data.split.validation, data.split.test)
        assert tuple(np.bincount(data.labels[p]).tolist() for p in parts) == SCAFFOLD[name]
        x = np.concatenate([g.features for g in data[data.split.train].graphs]).astype(float)
        assert 2 * x.var(0).sum() == pytest.approx(1, rel=1e-3)
    else:
        assert data.split is None


def test_a_folder_and_a_zip_give_the_same(datasets_dir, tmp_path):
    from_zip = load("MUTAG", datasets_dir)
    with zipfile.ZipFile(datasets_dir / "MUTAG.zip") as archive:
        archive.extractall(tmp_path)
    for file in (tmp_path / "MUTAG").iterdir():
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert load("MUTAG", tmp_path).fingerprint() == from_zip.fingerprint()


def test_a_truncated_zip_is_refused_and_left_alone(datasets_dir, tmp_path):
    whole = (datasets_dir / "MUTAG.zip").read_bytes()
    for cut in (0, 100, len(whole) // 2, len(whole) - 1):
        (tmp_path / "MUTAG.zip").write_bytes(whole[:cut])
        with pytest.raises(DataError, match=r"MUTAG\.zip: not a zip, or cut short"):
            load("MUTAG", tmp_path)
        assert (tmp_path / "MUTAG.zip").read_bytes() == whole[:cut]


def test_a_flipped_byte_inside_a_zip_is_noticed(datasets_dir, tmp_path):
    damaged = bytearray((datasets_dir / "MUTAG.zip").read_bytes())
    damaged[2000] ^= 255
    (tmp_path / "MUTAG.zip").write_bytes(damaged)
    with pytest.raises(DataError, match=r"MUTAG_A\.txt: (damaged|cannot be read)"):
        load("MUTAG", tmp_path)


def test_altered_content_is_refused_unless_wanted(datasets_dir, tmp_path):
    with zipfile.ZipFile(datasets_dir / "MUTAG.zip") as archive:
        archive.extractall(tmp_path)
    labels = tmp_path / "MUTAG" / "MUTAG_graph_labels.txt"
    labels.write_text(labels.read_text().replace("-1", "1", 1))
    with pytest.raises(DataError, match=r"content of MUTAG has the fingerprint .*verify=False"):
        load("MUTAG", tmp_path)
    assert len(load("MUTAG", tmp_path, verify=False)) == 188


def test_copies_of_molhiv_with_other_atom_features_load_with_a_warning(datasets_dir, tmp_path):
    with zipfile.ZipFile(datasets_dir / "ogbg_molhiv.zip") as archive:
        archive.extractall(tmp_path)
    file = tmp_path / "ogbg_molhiv" / "raw" / "node-feat.csv.gz"
    file.write_bytes(gzip.compress(b"6" + gzip.decompress(file.read_bytes())[1:], 1))
    with pytest.warns(UserWarning, match="attributes of ogbg-molhiv"):
        assert len(load("ogbg-molhiv", tmp_path)) == 41127


@pytest.mark.parametrize(
    "member", ["../MUTAG_A.txt", "/etc/MUTAG_A.txt", "MUTAG/../../x", "C:/x", "a\\..\\..\\x"]
)
def test_an_archive_that_points_outside_is_refused(tmp_path, member):
    with zipfile.ZipFile(tmp_path / "MUTAG.zip", "w") as archive:
        archive.writestr("MUTAG/MUTAG_A.txt", "1, 2\n")
        archive.writestr(zipfile.ZipInfo("placeholder"), "1, 2\n")
        archive.filelist[-1].filename = member
        archive.filelist[-1].orig_filename = member
    with pytest.raises(DataError, match="points outside the archive"):
        load("MUTAG", tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["MUTAG.zip"]


def test_symbolic_links_and_bombs_are_refused(tmp_path):
    link = zipfile.ZipInfo("MUTAG/MUTAG_A.txt")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "MUTAG.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(DataError, match="points outside the archive"):
        load("MUTAG", tmp_path)
    with zipfile.ZipFile(tmp_path / "MUTAG.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("MUTAG/MUTAG_A.txt", b"0" * (80 << 20))
    with pytest.raises(DataError, match="would unpack to"):
        load("MUTAG", tmp_path)


def test_names():
    for wrong in ("../PROTEINS", "", "a/b", "a b", None):
        with pytest.raises(InputError, match="name: .* is not a dataset's name"):
            load(wrong)
    with pytest.raises(InputError, match="did you mean 'PROTEINS'"):
        load("proteins")
    with pytest.raises(InputError, match="did you mean 'IMDB-BINARY'"):
        load("IMDB_BINARY")
    with pytest.raises(InputError, match="structure: .*shortest_path"):
        load("PROTEINS", structure="distance")
    with pytest.raises(InputError, match="measure: .*uniform"):
        load("PROTEINS", measure="even")


def test_synthetic_has_the_structure_and_the_measure_one_asks_for():
    data = load("SYNTHETIC", structure="shortest_path", measure="degree")
    plain = load("SYNTHETIC")
    for graph, other in zip(data.graphs[:5], plain.graphs, strict=False):
        np.testing.assert_array_equal(graph.adjacency, other.adjacency)
        assert graph.structure.max() > 1
        np.testing.assert_allclose(graph.weights, other.adjacency.sum(0) / other.adjacency.sum())


def test_a_degree_below_zero_is_refused():
    with pytest.raises(InputError, match="max_degree: -1 is no degree"):
        load("IMDB-MULTI", max_degree=-1)


def test_synthetic_is_a_name_too():
    assert load("SYNTHETIC").fingerprint() == synthetic().fingerprint()


def test_the_registry_lists_two_https_addresses_for_every_kind():
    for name in [*registry.names(), "REDDIT-BINARY", "ogbg-molbbbp"]:
        entry = registry.find(name)
        assert len(entry.urls) >= 2
        assert all(url.startswith("https://") and url.endswith(".zip") for url in entry.urls)
    assert registry.find("ogbg-molhiv").urls[0].endswith("/hiv.zip")
    assert not registry.find("REDDIT-BINARY").fingerprints


def test_third_party_shows_the_registry_the_package_reads():
    shown = Path(__file__).resolve().parents[2] / "third_party" / "datasets.json"
    assert list(json.loads(shown.read_text())["datasets"]) == registry.names()


def test_nothing_is_unpacked_beside_a_zip(datasets_dir, tmp_path):
    shutil.copy(datasets_dir / "ogbg_molbace.zip", tmp_path)
    load("ogbg_molbace", tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["ogbg_molbace.zip"]
