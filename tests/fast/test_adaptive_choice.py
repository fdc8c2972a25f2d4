"""Which of two options is faster is found by trying them, again and again, because the load of a machine changes."""

from sb3_ext.fast.adaptive_choice import AdaptiveChoice


def test_the_faster_option_is_taken_and_the_other_one_tried_again():
    choice, options = AdaptiveChoice(trials=2, again_after=5), []
    for _ in range(15):
        option = choice.choose()
        options.append(option)
        choice.tell(option, 1.0 if option else 1.2)
    assert options == [0, 0, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0]


def test_an_option_that_is_far_slower_is_tried_less_often():
    choice, options = AdaptiveChoice(trials=2, again_after=5), []
    for _ in range(100):
        option = choice.choose()
        options.append(option)
        choice.tell(option, 1.0 if option else 3.0)
    assert options.count(0) == 2 + 4


def test_a_second_option_that_is_hopelessly_slow_is_tried_once():
    choice, options = AdaptiveChoice(trials=2, again_after=5), []
    for _ in range(10):
        options.append(choice.choose())
        choice.tell(options[-1], 3.0 if options[-1] else 1.0)
    assert options == [0, 0, 1, *[0] * 7]


def test_an_option_that_was_slow_while_the_machine_was_busy_is_taken_at_the_next_try():
    choice = AdaptiveChoice(trials=3, again_after=10)
    for _ in range(20):
        option = choice.choose()
        choice.tell(option, 2.0 if option else 1.0)
    options = []
    for _ in range(60):
        options.append(choice.choose())
        choice.tell(options[-1], 0.5 if options[-1] else 1.0)
    assert options.index(1) < 40 and options[options.index(1) + 1] == 1
    assert options.count(0) < 40


def test_an_option_that_becomes_slower_is_left():
    choice = AdaptiveChoice(trials=3)
    for _ in range(20):
        option = choice.choose()
        choice.tell(option, 1.0 if option else 2.0)
    for _ in range(3):
        option = choice.choose()
        choice.tell(option, 3.0 if option else 2.0)
    assert choice.choose() == 0
