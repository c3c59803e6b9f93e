"""`ProcVecEnv`: the transport, interrupted calls, dead workers, start methods, and that nothing is left behind.

Workers are shared by several checks where a failed one could not disturb the next: starting them is what costs time.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai
from sekai import RowKind
from tests.contract.envs import BOOM, DIE, EXIT, MODES, Coded, build, build_from, draws, factory, places

LOST, STEP = RowKind.LOST, RowKind.STEP

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and start methods")


class Hanging(Coded):
    """Does not close by itself, or refuses to."""

    def __init__(self, slot: int, how: str = "hang") -> None:
        super().__init__(slot)
        self.how = how

    def close(self) -> None:
        if self.how == "fail":
            raise OSError(f"slot {self.slot} cannot close")
        if self.how == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self.how != "fine":
            time.sleep(60)


class NapsOnce(Coded):
    """Sleeps in one step."""

    def step(self, action: Any) -> Any:
        result = super().step(action)
        self.nap = 0.0
        return result


class Secretive(Coded):
    """Returns what cannot be pickled when asked to: a lock in its info, or as an attribute."""

    def __init__(self, slot: int) -> None:
        super().__init__(slot, 99)
        self.lock = threading.Lock()

    def step(self, action: Any) -> Any:
        result = super().step(action)
        return result._replace(info={"lock": self.lock}) if action == 1 else result


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise `KeyboardInterrupt` in this process, and only in this one, after a while."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def gone(pid: int) -> bool:
    """Whether the process has ended; a moment is allowed for its parent, the fork server, to collect it."""
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        status = Path(f"/proc/{pid}/stat")
        if (
            status.exists()
            and status.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0] == "Z"
        ):
            return True
        time.sleep(0.01)
    return False


# ---- interrupted calls -----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_the_reply_to_an_interrupted_step_is_not_taken_for_the_next_one(mode: str) -> None:
    with build("grouped", mode, (3, 9, 9)) as vec:
        vec.reset(seed=0)
        vec.step([0, 0, 0])
        vec.set_attr("nap", [0.0, 0.4, 0.0])
        with alarm(0.1):
            vec.step([0, 0, 0])
        assert vec.lost_rows.all()
        assert vec.get_attr("t") == [2, 2, 2], "a call of another kind reads its own reply, too"
        vec.set_attr("nap", 0.0)
        after = vec.step([1, 1, 1])  # slot 0 ends here, in the call after
        assert after.kind.tolist() == [LOST] * 3 and after.rewards.tolist() == [31.0, 131.0, 231.0]
        assert after.ended.tolist() == [True, False, False] and places([after.final_observation(0)]) == [(0, 0, 3)]
        assert not vec.lost_rows.any() and vec.step([1, 1, 1]).rewards[1] == 141.0


def test_an_interrupted_call_in_which_episodes_began_is_caught_up_with_before_the_next() -> None:
    # every episode has one step, so the options sent with the next step must be those of the episode after
    asked: list[tuple[int, int]] = []

    def options(slot: int, episode: int) -> dict[str, Any]:
        asked.append((slot, episode))
        return {"draw": 100 * slot + episode}

    with build_from(
        [factory(NapsOnce, 0, 1), factory(NapsOnce, 1, 1)], "grouped", "same_step", autoreset_options=options
    ) as vec:
        vec.reset(seed=0)
        assert draws(vec.step([0, 0]).observations) == [1, 101]
        vec.set_attr("nap", 0.3)
        with alarm(0.1):
            vec.step([0, 0])  # episodes 2 begin, unseen
        after = vec.step([0, 0])
        assert draws(after.observations) == [3, 103] and places(after.observations) == [(0, 3, 0), (1, 3, 0)]
        assert asked == [(slot, episode) for episode in (1, 2, 3, 4) for slot in (0, 1)]


def test_an_interrupted_reset_loses_the_first_rows_of_the_episodes_that_began() -> None:
    class Slow(Coded):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            time.sleep(self.nap)
            return super().reset(seed=seed, options=options)

    with build_from([factory(Slow, 0, 9), factory(Slow, 1, 9)], "grouped") as vec:
        vec.reset(seed=0)
        vec.set_attr("nap", [0.3, 0.0])
        with alarm(0.1):
            vec.reset(mask=np.array([True, False]))
        assert vec.lost_rows.tolist() == [True, False]
        after = vec.step([0, 0])
        assert places(after.observations) == [(0, 1, 1), (1, 0, 1)] and after.kind.tolist() == [LOST, STEP]


# ---- what is sent ----------------------------------------------------------------------------------


def test_what_cannot_be_pickled_is_refused_before_anything_is_sent_or_named_when_it_comes_back() -> None:
    with build_from([factory(Secretive, slot) for slot in range(3)], "grouped") as vec:
        vec.reset(seed=0)
        lock = threading.Lock()
        with open(os.devnull, encoding="ascii") as handle:
            for send in (
                lambda: vec.call("echo", lock),
                lambda: vec.call("echo", value=handle),
                lambda: vec.set_attr("nap", lock),
                lambda: vec.reset(options=[None, None, {"lock": lock}]),
            ):
                with pytest.raises((TypeError, Exception), match=r"pickle|open in this process only"):
                    send()
        assert not vec.lost_rows.any() and vec.get_attr("nap") == [0.0] * 3
        with pytest.raises(sekai.VecEnvWorkerError, match=r"cannot pickle '_thread\.lock' object") as caught:
            vec.step([0, 0, 1])
        assert "what the sub-env returned cannot be sent to the calling process" in caught.value.remote_traceback
        with pytest.raises(sekai.VecEnvWorkerError, match="cannot pickle"):
            vec.get_attr("lock")
        after = vec.step([0, 0, 0])
        assert after.kind.tolist() == [LOST] * 3 and places(after.observations) == [(slot, 0, 2) for slot in range(3)]
        assert vec.step([0, 0, 0]).kind.tolist() == [STEP] * 3


def test_functions_and_classes_of_a_script_travel_by_value() -> None:
    local = {"k": 3}

    class Here(Coded):
        def tell(self, function: Any) -> Any:
            return function(local["k"])

    with build_from([factory(Here, 0)], "proc") as vec:
        assert vec.call("tell", lambda k: 10 * k) == [30] and vec.call("where") != [os.getpid()]
        assert vec.layers() == ["ProcVecEnv", "Here"] and vec.num_workers == 1 and vec.shared_memory is True


def test_the_callback_for_options_runs_in_the_calling_process() -> None:
    # U17
    pids: list[int] = []

    def options(slot: int, episode: int) -> None:
        pids.append(os.getpid())

    with build("proc", "same_step", (1,), autoreset_options=options) as vec:
        vec.reset(seed=0)
        vec.step([0])
    assert pids == [os.getpid()] * 2


# ---- errors ----------------------------------------------------------------------------------------


def test_errors_of_a_worker_name_the_slot_and_keep_the_traceback() -> None:
    with build("grouped", "same_step", (99,) * 4) as vec:
        vec.reset(seed=0)
        with pytest.raises(
            sekai.VecEnvWorkerError, match=r"^Sub-env 3 raised ValueError: slot 3 went boom\n\nTraceback"
        ) as caught:
            vec.step([0, 0, 0, BOOM])
        assert (caught.value.rank, caught.value.exc_type) == (3, "ValueError")
        assert "misbehave(int(action), self.slot)" in caught.value.remote_traceback
        with pytest.raises(
            AttributeError, match=r"^Sub-env 0 raised AttributeError: .* has no attribute 'lenght'\. Did you mean"
        ):
            vec.get_attr("lenght")
        with pytest.raises(AttributeError, match="has no attribute 'lenght'"):
            vec.set_attr("lenght", 4)
        assert vec.step([0] * 4).kind.tolist() == [LOST] * 4


def test_a_dead_worker_is_reported_by_every_later_call_and_the_others_are_released() -> None:
    vec = build("proc", "same_step", (99, 99, 99))
    vec.reset(seed=0)
    pids = vec.call("where")
    for call in (lambda: vec.step([0, DIE, 0]), lambda: vec.step([0, 0, 0]), lambda: vec.get_attr("t"), vec.reset):
        with pytest.raises(
            sekai.VecEnvWorkerError, match=r"^Sub-env 1 raised EOFError: worker process exited unexpectedly"
        ) as caught:
            call()
        assert (caught.value.rank, caught.value.exc_type, caught.value.remote_traceback) == (1, "EOFError", "")
    vec.close()
    assert vec.closed and all(gone(pid) for pid in pids)


def test_ctrl_c_reaches_every_process_of_a_terminal_and_workers_leave_it_to_the_caller() -> None:
    with build("grouped", "same_step", (99, 99)) as vec:
        vec.reset(seed=0)
        for pid in set(vec.call("where")):
            os.kill(pid, signal.SIGINT)
        assert vec.step([0, 0]).kind.tolist() == [STEP, STEP]


def test_a_worker_told_to_exit_by_its_environment_is_a_dead_worker() -> None:
    vec = build("grouped", "same_step", (99, 99, 99))
    vec.reset(seed=0)
    with pytest.raises(sekai.VecEnvWorkerError, match=r"^Worker 0 \(sub-envs 0-1\) raised EOFError") as caught:
        vec.step([EXIT, 0, 0])
    assert caught.value.rank == 0
    vec.close()


def test_a_factory_that_fails_or_kills_its_worker_leaves_no_process() -> None:
    before = set(multiprocessing.active_children())
    with pytest.raises(
        sekai.VecEnvWorkerError, match=r"^Sub-env 1 raised EOFError: worker process exited unexpectedly"
    ):
        sekai.ProcVecEnv([factory(Coded, 0), lambda: os._exit(3)])
    with pytest.raises(sekai.VecEnvWorkerError, match=r"^Sub-env 1 raised ZeroDivisionError"):
        sekai.ProcVecEnv([factory(Coded, 0), lambda: 1 / 0])
    assert set(multiprocessing.active_children()) == before


def test_the_first_error_of_a_failed_construction_survives_a_failing_close() -> None:
    class Narrow(Hanging):
        def __init__(self) -> None:
            super().__init__(1, "fail")
            self.action_space = sekai.Discrete(3)

    with pytest.raises(sekai.SpaceMismatch, match="The action space of sub-env 1 differs") as caught:
        sekai.ProcVecEnv([factory(Hanging, 0, "fine"), Narrow])
    assert "Closing the sub-envs that had been built also failed" in caught.value.__notes__[0]
    assert "slot 1 cannot close" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"num_workers": 0}, ValueError, r"^num_workers is 0; expected an int of at least 1\.$"),
        ({"num_workers": 3}, ValueError, r"^num_workers is 3; expected 1 to 2, the number of sub-envs\.$"),
        ({"num_workers": True}, TypeError, "num_workers is True"),
        ({"num_workers": 1.5}, TypeError, "num_workers is 1.5"),
        ({"close_timeout": None}, ValueError, "close_timeout is None; expected seconds, at least 0"),
        ({"close_timeout": -1.0}, ValueError, "close_timeout is -1.0"),
        ({"autoreset": "never"}, ValueError, "autoreset is 'never'"),
        ({"context": "thread"}, ValueError, "thread"),
        ({"autoreset_options": 5}, TypeError, "autoreset_options is 5"),
    ],
)
def test_wrong_arguments_are_refused_and_leave_no_process(arguments: Any, error: type[Exception], text: str) -> None:
    before = set(multiprocessing.active_children())
    with pytest.raises(error, match=text):
        sekai.ProcVecEnv([factory(Coded, 0), factory(Coded, 1)], **arguments)
    assert set(multiprocessing.active_children()) == before


# ---- closing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["hang", "stubborn"])
def test_a_worker_that_does_not_close_in_time_is_ended(how: str) -> None:
    vec = build_from([factory(Hanging, 0, how), factory(Hanging, 1, "fine")], "proc", close_timeout=0.3)
    pids = vec.call("where")
    vec.close()
    assert vec.closed and all(gone(pid) for pid in pids)


def test_an_error_of_a_sub_envs_close_is_raised_after_all_are_released() -> None:
    vec = build_from(
        [factory(Hanging, slot, how) for slot, how in enumerate(("fine", "fail", "fine", "fail"))], "grouped"
    )
    pids = vec.call("where")
    with pytest.raises(sekai.VecEnvWorkerError, match=r"^Sub-env 1 raised OSError: slot 1 cannot close") as caught:
        vec.close()
    assert caught.value.rank == 1 and vec.closed and all(gone(pid) for pid in pids)
    vec.close()


def test_building_and_closing_leaves_no_descriptor_and_no_process() -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    gc.collect()  # what other tests have left
    build("grouped", "same_step", (9, 9)).close()  # the fork server itself stays
    before, children = open_files(), set(multiprocessing.active_children())
    for _ in range(5):
        with build("grouped", "same_step", (9, 9)) as vec:
            vec.reset(seed=0)
    assert open_files() == before and set(multiprocessing.active_children()) == children


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_every_start_method_gives_the_same_rows(context: str) -> None:
    with build("grouped", "next_step", (1, 2), context=context) as vec, build("sync", "next_step", (1, 2)) as same:
        for one, other in [
            (vec.reset(seed=3), same.reset(seed=3)),
            *((vec.step([1, 2]), same.step([1, 2])) for _ in range(3)),
        ]:
            assert np.array_equal(one.observations, other.observations)
            assert list(one.infos) == list(other.infos)


def test_a_thousand_steps_are_the_same_as_in_one_process() -> None:
    # U59
    rng = np.random.default_rng(0)
    with build("grouped", "same_step", (2, 3, 5, 7)) as vec, build("sync", "same_step", (2, 3, 5, 7)) as same:
        assert np.array_equal(vec.reset(seed=3).observations, same.reset(seed=3).observations)
        for _ in range(1000):
            actions = rng.integers(0, 5, 4)
            one, other = vec.step(actions), same.step(actions)
            assert np.array_equal(one.observations, other.observations) and np.array_equal(one.rewards, other.rewards)
            assert np.array_equal(one.kind, other.kind)
        assert one.infos == other.infos


class Clumsy(Coded):
    """Has a method that raises `AttributeError` by itself."""

    def stumble(self) -> None:
        raise AttributeError("stumbled")


def test_a_method_that_is_missing_is_an_attribute_error_and_one_that_fails_is_not() -> None:
    with build_from([factory(Clumsy, 0), factory(Clumsy, 1)], "proc", "same_step") as vec:
        with pytest.raises(AttributeError, match=r"'stumbel'.*Did you mean 'stumble'"):
            vec.call("stumbel")
        with pytest.raises(sekai.VecEnvWorkerError, match="stumbled") as caught:
            vec.call("stumble")
        assert (caught.value.rank, caught.value.exc_type) == (0, "AttributeError")
        assert places(vec.reset(seed=0).observations)[0][0] == 0


class Trap:
    """Pickles, and raises where it is unpickled."""

    def __reduce__(self) -> Any:
        return _spring, ()


def _spring() -> None:
    raise RuntimeError("sprung")


class Trapped(Coded):
    """Returns a trap when asked for one, and takes one."""

    def trap(self) -> Trap:
        return Trap()

    def take(self, thing: object) -> str:
        return type(thing).__name__


def test_what_cannot_be_unpickled_on_either_side_is_an_error_and_the_next_call_is_in_step() -> None:
    with build_from([factory(Trapped, 0), factory(Trapped, 1)], "proc", "same_step") as vec:
        vec.reset(seed=0)
        for call in (lambda: vec.call("trap"), lambda: vec.call("take", Trap())):
            with pytest.raises(sekai.VecEnvWorkerError, match="sprung") as caught:
                call()
            assert caught.value.exc_type == "RuntimeError"
        assert vec.call("take", 1) == ["int", "int"]
        assert places(vec.step([0, 0]).observations) == [(0, 0, 1), (1, 0, 1)]


def test_a_timeout_of_the_caller_is_the_callers_and_no_dead_worker() -> None:
    def alarm(*_: object) -> None:
        raise TimeoutError("the caller's own")

    with build_from([factory(NapsOnce, 0)], "proc", "same_step") as vec:
        vec.reset(seed=0)
        vec.set_attr("nap", 0.5)
        old = signal.signal(signal.SIGALRM, alarm)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            with pytest.raises(TimeoutError, match="the caller's own"):
                vec.step([0])
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
        result = vec.step([0])
        assert places(result.observations) == [(0, 0, 2)] and result.kind.tolist() == [LOST]


def test_classes_of_a_prompt_travel_by_value() -> None:
    """In `python -c`, as in a notebook, no worker can import the module in which the environment stands."""
    script = """
import numpy as np, sekai

class Fragile(sekai.Env):
    observation_space, action_space = sekai.Box(-1.0, 1.0, shape=(2,)), sekai.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        return sekai.ResetResult(np.zeros(2, np.float32), {})

    def step(self, action):
        if action == 1:
            raise ValueError("action 1 is not supported")
        return sekai.StepResult(np.zeros(2, np.float32), 0.0, False, False, {})

with sekai.ProcVecEnv([Fragile] * 2) as vec:
    vec.reset(seed=0)
    try:
        vec.step(np.array([0, 1]))
    except sekai.VecEnvWorkerError as error:
        print(error.rank, error.exc_type)
    print(vec.step(np.array([0, 0])).rewards)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (run.stdout, run.stderr) == ("1 ValueError\n[0. 0.]\n", "")
