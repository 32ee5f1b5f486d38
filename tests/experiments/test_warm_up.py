"""Compiled beforehand: the second start reads its programs."""

import re

import pytest


@pytest.mark.slow
def test_a_warm_cache_is_read(python, tiny_dir, tmp_path):
    cache = tmp_path / "programs"
    command = [
        "-m", "experiments.warm_up", "--dataset=TINY", f"--data_dir={tiny_dir}",
        "--augment=vanilla", "--folds=2", "--num_layers=1", "--hidden=4", "--batch_size=16",
        f"--compilation_cache={cache}",
    ]  # fmt: skip
    texts = [python(*command) for _ in range(2)]
    assert [text.returncode for text in texts] == [0, 0], texts
    assert "TINY vgcn vanilla:" in texts[0].stdout
    found = [int(re.search(r"(\d+) read from", text.stdout)[1]) for text in texts]
    compiled = [int(re.search(r"(\d+) programs compiled, ", text.stdout)[1]) for text in texts]
    assert found[0] == 0 < found[1]
    assert compiled[1] == compiled[0] - found[1]
    assert any(cache.iterdir())


@pytest.mark.slow
def test_a_warm_up_needs_a_folder(python):
    result = python("-m", "experiments.warm_up", "--augment=vanilla")
    assert result.returncode == 2
    assert "--compilation_cache: missing; give the folder" in result.stderr
