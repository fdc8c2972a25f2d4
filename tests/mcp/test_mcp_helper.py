"""The process that checks and plays."""

import os
import time

import pytest

from sb3_ext.common.names import check_choice
from sb3_ext.common.usage_error import UsageError
from sb3_ext.mcp.helper import Helper


def test_a_job_that_takes_too_long_is_ended_and_the_next_one_runs():
    helper = Helper(3.0)
    first = helper.call(os.getpid)
    with pytest.raises(UsageError, match=r"longer than 3 s, the limit of the server \(--max-seconds\)"):
        helper.call(time.sleep, 60)
    second = helper.call(os.getpid)
    assert second not in (first, os.getpid()) and helper.call(os.getpid) == second


def test_a_mistake_is_raised_with_its_message_and_a_crash_is_told_of():
    helper = Helper(60.0)
    assert helper.call(os.getpriority, os.PRIO_PROCESS, 0) == os.getpriority(os.PRIO_PROCESS, 0)
    with pytest.raises(UsageError, match="x='b' is not one of 'a'"):
        helper.call(check_choice, "x", "b", ["a"])
    with pytest.raises(UsageError, match="the helper process was ended by SIGABRT"):
        helper.call(os.abort)
