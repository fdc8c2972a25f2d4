"""What is known of a training."""

import pytest
from rl_zoo3 import ALGOS

from sb3_ext.runs.facts import algorithm_name


@pytest.mark.parametrize("name", ALGOS)
def test_an_algorithm_has_the_name_that_rl_zoo_gives_it(name):
    cls = ALGOS[name]
    assert algorithm_name(cls.__new__(cls)) == name
