"""Formatting orders keys, and changes neither values nor comments."""

import pytest
import yaml
from rl_zoo3.utils import ALGOS

from sb3_ext.common.usage_error import UsageError
from sb3_ext.zoo.config.files import hyperparameter_files
from sb3_ext.zoo.config.format import format_file, format_text
from sb3_ext.zoo.config.schema import section_parameters
from sb3_ext.zoo.registry import ALGORITHMS

ORDER = ["n_envs", "policy", "gamma", "env_wrapper", "ext"]
MIXED = """# about the file


# about A
A-v0: &a
  # about ext,
  # in two lines
  ext: {report: true}
  own: 1  # unknown
  env_wrapper:
    # inside
    - one.Wrapper

  gamma: 0.9   # a remark
  policy: "MlpPolicy"
  # gae_lambda: 0.9
B-v0:
  gamma: 0.8
  <<: *a
C-v0: {gamma: 1, n_envs: 2}
"""
ORDERED = """# about the file

# about A
A-v0: &a
  policy: "MlpPolicy"
  gamma: 0.9   # a remark
  env_wrapper:
    # inside
    - one.Wrapper

  own: 1  # unknown
  # about ext,
  # in two lines
  ext: {report: true}
  # gae_lambda: 0.9

B-v0:
  <<: *a
  gamma: 0.8

C-v0: {gamma: 1, n_envs: 2}
"""


def order_for(algo):
    return [*section_parameters(ALGOS[algo]), "ext"]


def test_keys_move_with_their_comments():
    assert format_text(MIXED, ORDER) == ORDERED


def test_what_is_formatted_stays_as_it_is():
    assert format_text(ORDERED, ORDER) == ORDERED


@pytest.mark.parametrize(("algo", "path"), hyperparameter_files().items())
def test_a_file_keeps_its_values_and_its_comments_and_is_formatted_once(algo, path):
    before = path.read_text(encoding="utf-8")
    after = format_file(path, order_for(algo))
    assert yaml.safe_load(after) == yaml.safe_load(before)
    assert sorted(after.split()) == sorted(before.split())
    assert format_text(after, order_for(algo)) == after


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_our_own_files_are_formatted(algo):
    path = hyperparameter_files()[algo]
    assert format_file(path, order_for(algo)) == path.read_text(encoding="utf-8")


def test_keys_stay_where_an_alias_would_come_before_its_anchor():
    text = "A-v0:\n  gamma: &x 0.9\n  n_envs: *x\n"
    assert format_text(text, ORDER) == text


def test_a_file_with_a_duplicate_key_is_not_formatted(tmp_path):
    (tmp_path / "conf.yml").write_text("A-v0:\n  gamma: 1\n  gamma: 0.9\n")
    with pytest.raises(UsageError, match=r"conf\.yml:3: gamma is there twice"):
        format_file(tmp_path / "conf.yml", ORDER)
