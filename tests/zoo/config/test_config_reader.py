"""Hyperparameter files are read with the line of each value."""

import pytest
import yaml

from sb3_ext.common.usage_error import UsageError
from sb3_ext.zoo.config.files import hyperparameter_files
from sb3_ext.zoo.config.reader import read_config

TEXT = """# a comment
Base-v0: &base
  gamma: 0.9
  n_steps: 8
Own-v0:
  <<: *base
  gamma: 0.99
  env_wrapper:
    - one.Wrapper
    - two.Wrapper:
        size: 3
"""


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "conf.yml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("Own-v0",), 5),
        (("Own-v0", "gamma"), 7),
        (("Own-v0", "n_steps"), 4),  # where the merged value is written
        (("Own-v0", "env_wrapper", 1), 10),
        (("Own-v0", "env_wrapper", 1, "two.Wrapper", "size"), 11),
        (("Own-v0", "env_wrapper", 0, "deeper"), 9),
    ],
)
def test_a_value_has_its_line_or_that_of_what_it_is_in(file, keys, line):
    path = file(TEXT)
    assert read_config(path).where(keys) == f"{path}:{line}"


@pytest.mark.parametrize("path", hyperparameter_files().values(), ids=lambda path: path.name)
def test_values_are_those_that_rl_zoo_reads(path):
    assert read_config(path).sections == yaml.safe_load(path.read_text(encoding="utf-8"))


def test_keys_that_are_there_twice_are_found_at_every_depth(file):
    text = "A-v0:\n  ext:\n    alerts: true\n    alerts: false\nA-v0:\n  gamma: 1\n"
    assert [problem.where.rpartition(":")[2] for problem in read_config(file(text)).problems] == ["4", "5"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"A-v0: \xff\xfe", "UTF-8"),
        ("A-v0: !!python/object:os.system {}", "conf.yml:1"),
        ("A-v0: {a: 1", "conf.yml:1"),
        ("A-v0:\n\tn_envs: 1", "conf.yml:2: there is a tab"),
        ("--- 1\n--- 2", "conf.yml:2"),
        ("", "is empty"),
        ("\x07", "is not valid YAML"),
    ],
)
def test_a_file_that_can_not_be_read_is_named_with_the_line(file, text, said):
    with pytest.raises(UsageError) as error:
        read_config(file(text))
    assert said in str(error.value) and "conf.yml" in str(error.value) and len(str(error.value).splitlines()) <= 3


def test_a_list_that_contains_itself_is_read(file):
    assert read_config(file("A-v0: &a [*a]")).where(("A-v0",)).endswith(":1")
