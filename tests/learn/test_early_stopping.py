from sim2cam.learn.early_stopping import (
    MAX_EVALUATIONS,
    EarlyStopping,
    compute_evaluation_interval,
)


def test_stops_without_improvement_but_not_while_nothing_is_found():
    stopping, is_best, should_stop = EarlyStopping(2), [], []
    for step, score in enumerate((0.0, 0.0, 0.0, 0.3, 0.5, 0.5, 0.4), 1):
        is_best.append(stopping.add(step, score))
        should_stop.append(stopping.should_stop)
    assert is_best == [True, False, False, True, True, False, False]
    assert should_stop == [False] * 6 + [True]
    assert stopping.best_step == 5
    assert not EarlyStopping(2).should_stop


def test_number_of_evaluations():
    intervals = [compute_evaluation_interval(steps) for steps in (1, 19, 1200)]
    assert intervals == [1, 1, 1200 // MAX_EVALUATIONS]
