"""`RayVecEnv` on a cluster of two nodes: parity with sync, the contract, faults, and who starts and ends Ray.

One cluster serves the whole file; the tests about starting and ending Ray run in processes of their own.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

import sekai
from sekai import RowKind
from sekai.cli.bench import bench
from sekai.vector import Infos, NativeShards
from tests.contract import test_failures, test_memory, test_modes, test_resets, test_spaces
from tests.contract.envs import BOOM, DIE, INTERRUPT, MODES, Coded, CodedVec, build, build_from, draws, factory, places
from tests.vector.test_process import NapsOnce, Trap, Trapped, alarm, gone

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before this process imports Ray
ray = pytest.importorskip("ray")

LOST, STEP = RowKind.LOST, RowKind.STEP

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="a cluster on one machine needs POSIX"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of Ray's own pipes and files
]


class Placed(Coded):
    """Knows the node on which it lives."""

    def node(self) -> str:
        node: str = ray.get_runtime_context().get_node_id()
        return node


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes, the first of which holds the connection of this process."""
    from ray.cluster_utils import Cluster

    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 300, "health_check_failure_threshold": 3}
    small = {"num_cpus": 2, "object_store_memory": 80 << 20}
    nodes = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False, "_system_config": quick})
    nodes.add_node(**small)
    nodes.small = small
    ray.init(address=nodes.address, log_to_driver=False, logging_level="error")
    yield nodes
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture
def two_nodes(cluster: Any) -> Any:
    """The cluster, with a second node where a test has taken it."""
    if not cluster.worker_nodes:
        cluster.add_node(**cluster.small)
    return cluster


@pytest.fixture(autouse=True)
def ray_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test ends the connection that it found."""
    request.getfixturevalue("cluster")
    yield
    assert ray.is_initialized()


# ---- the same as everywhere else -------------------------------------------------------------------


def check_equal(one: Any, other: Any) -> None:
    for name in one.__slots__:
        if name != "infos":
            assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert one.infos == other.infos


@pytest.mark.parametrize("mode", MODES)
def test_three_hundred_random_steps_are_the_same_as_in_sync(mode: str) -> None:
    rng = np.random.default_rng(0)
    lengths, endings = (2, 3, 5, 7, 4), ("terminated", "truncated", "both", "terminated", "truncated")
    with build("ray", mode, lengths, endings, num_workers=3) as vec, build("sync", mode, lengths, endings) as same:
        assert vec.num_workers == 3
        check_equal(vec.reset(seed=3), same.reset(seed=3))
        for call in range(300):
            if call % 10 == 9:
                mask = rng.random(5) < 0.5
                seed, options = (None if call % 20 == 9 else call), [None, {"at": 1}, None, {"draw": call}, {}]
                check_equal(*(v.reset(seed=seed, options=options, mask=mask) for v in (vec, same)))
            actions = rng.integers(0, 5, 5)
            check_equal(vec.step(actions), same.step(actions))
        assert vec.get_attr("steps") == same.get_attr("steps") and vec.get_attr("options") == same.get_attr("options")


def contract() -> list[Any]:
    """The tests of the contract that run on the backend `pickled`, each with one choice of other arguments."""
    checks: list[Any] = []
    for module in (test_failures, test_memory, test_modes, test_resets, test_spaces):
        for name, check in vars(module).items():
            marks = [mark for mark in getattr(check, "pytestmark", []) if mark.name == "parametrize"]
            choices = {mark.args[0]: list(mark.args[1]) for mark in marks}
            if name.startswith("test_") and "pickled" in choices.pop("backend", ()):
                chosen = {argument: values[len(checks) % len(values)] for argument, values in choices.items()}
                checks.append(pytest.param(check, chosen, id=f"{name}{[*chosen.values()]}"))
    return checks


@pytest.mark.parametrize(("check", "arguments"), contract())
def test_the_contract(check: Callable[..., None], arguments: dict[str, Any]) -> None:
    check(backend="ray", **arguments)


def test_native_shards_are_those_of_processes() -> None:
    def make(num_envs: int, autoreset: str) -> CodedVec:
        return CodedVec([3] * num_envs, ["terminated"] * num_envs, autoreset=autoreset)

    shards = NativeShards(make, 4)
    with sekai.RayVecEnv(shards, num_workers=2) as vec, sekai.ProcVecEnv(shards, num_workers=2) as same:
        check_equal(vec.reset(seed=5), same.reset(seed=5))
        for _ in range(7):
            check_equal(vec.step([1] * 4), same.step([1] * 4))


def test_make_vec_and_bench_know_it() -> None:
    vecs = [sekai.make_vec("CartPole-v1", 2, vectorization_mode=mode) for mode in ("ray", "sync")]
    assert vecs[0].layers()[0] == "RayVecEnv"
    check_equal(*(vec.reset(seed=0) for vec in vecs))
    check_equal(*(vec.step([0, 1]) for vec in vecs))
    for vec in vecs:
        vec.close()
    assert bench("CartPole-v1", num_envs=2, mode="ray", workers=1, steps=3, seed=0).mode == "ray"


async def stepped(vec: sekai.VecEnv) -> list[Any]:
    await vec.async_reset(seed=0)
    return places((await vec.async_step([0, 0])).observations)


def test_awaited_calls() -> None:
    with build("ray", "same_step", (9, 9), num_workers=2) as vec:
        assert asyncio.run(stepped(vec)) == [(0, 0, 1), (1, 0, 1)]


# ---- what is sent ----------------------------------------------------------------------------------


class Anything(gymnasium.Space[Any]):
    """Whatever it is given."""

    def contains(self, x: Any) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Anything)


class Eager(Coded):
    """Takes any action."""

    def __init__(self, slot: int) -> None:
        super().__init__(slot, 99)
        self.action_space = Anything()

    def step(self, action: Any) -> Any:
        return super().step(action if isinstance(action, int) else 0)


def test_what_cannot_be_pickled_is_refused_before_anything_is_sent() -> None:
    with build_from([factory(Eager, slot) for slot in range(3)], "ray", num_workers=2) as vec:
        vec.reset(seed=0)
        lock = threading.Lock()
        for send in (lambda: vec.step((0, 0, lock)), lambda: vec.call("echo", lock), lambda: vec.set_attr("nap", lock)):
            with pytest.raises(TypeError, match="cannot pickle"):
                send()
        assert not vec.lost_rows.any()
        after = vec.step((1, 1, 1))
        assert places(after.observations) == [(slot, 0, 1) for slot in range(3)] and after.kind.tolist() == [STEP] * 3


def test_what_cannot_be_unpickled_on_either_side_is_an_error_and_the_next_call_is_in_step() -> None:
    with build_from([factory(Trapped, 0), factory(Trapped, 1)], "ray", num_workers=2) as vec:
        vec.reset(seed=0)
        for call in (lambda: vec.call("trap"), lambda: vec.call("take", Trap())):
            with pytest.raises(sekai.VecEnvWorkerError, match="sprung"):
                call()
        assert places(vec.step([0, 0]).observations) == [(0, 0, 1), (1, 0, 1)]


class Historian(Coded):
    """Holds a history."""

    def __init__(self, slot: int, history: Any) -> None:
        super().__init__(slot)
        self.history = history

    def facts(self) -> tuple[float, bool]:
        return float(self.history.sum()), bool(self.history.flags.writeable)


def test_a_large_array_is_put_into_the_store_once(monkeypatch: pytest.MonkeyPatch) -> None:
    put: list[int] = []
    original = ray.put
    monkeypatch.setattr(ray, "put", lambda value: put.append(value.nbytes) or original(value))
    shared, own = np.arange(2.0**18), np.ones(2**18)
    with build_from(
        [factory(Historian, slot, (shared, own)[slot == 3]) for slot in range(4)], "ray", num_workers=2
    ) as vec:
        assert put == [1 << 21, 1 << 21]
        assert vec.call("facts") == [(float(shared.sum()), False)] * 3 + [(2.0**18, False)]


# ---- interrupted, slow and doubtful calls ----------------------------------------------------------


def test_the_reply_to_an_interrupted_step_is_not_taken_for_the_next_one() -> None:
    with build("ray", "same_step", (3, 9, 9), num_workers=2) as vec:
        vec.reset(seed=0)
        vec.set_attr("nap", [0.0, 0.5, 0.0])
        with alarm(0.2):
            vec.step([0, 0, 0])
        assert vec.lost_rows.all() and vec.get_attr("t") == [1, 1, 1]
        after = vec.step([1, 1, 1])
        assert after.kind.tolist() == [LOST] * 3 and after.rewards.tolist() == [21.0, 121.0, 221.0]


def test_a_slow_step_is_named_and_the_next_call_is_in_step() -> None:
    with build_from([factory(NapsOnce, slot) for slot in range(3)], "ray", num_workers=2, step_timeout=1.0) as vec:
        vec.reset(seed=0)
        vec.set_attr("nap", [0.0, 0.0, 1.7])
        with pytest.raises(sekai.VecEnvWorkerError, match=r"^Sub-env 2 raised TimeoutError: no answer in time"):
            vec.step([0, 0, 0])
        after = vec.step([0, 0, 0])
        assert places(after.observations) == [(slot, 0, 2) for slot in range(3)] and after.kind.tolist() == [LOST] * 3


class Doubtful:
    """An actor whose next call is said to be lost: after it was executed, or before."""

    def __init__(self, actor: Any, executed: bool) -> None:
        self.serve = SimpleNamespace(remote=self._remote)
        self._actor, self._executed, self.asked = actor, executed, 0

    def _remote(self, request: bytes) -> Any:
        self.asked += 1
        if self.asked > 1:
            return self._actor.serve.remote(request)
        if self._executed:
            ray.get(self._actor.serve.remote(request))
        return "lost"


@pytest.mark.parametrize("error", ["ActorUnavailableError", "ObjectLostError"])
@pytest.mark.parametrize("executed", [True, False])
def test_a_call_that_may_have_been_executed_is_executed_once(
    executed: bool, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = ray.exceptions
    lost = errors.ActorUnavailableError("gone", None) if error[0] == "A" else errors.ObjectLostError("0" * 56, None, "")
    original = ray.get

    def get(reference: Any, timeout: float | None = None) -> Any:
        if isinstance(reference, str):
            raise lost
        return original(reference, timeout=timeout)

    with build("ray", "same_step", (9, 9, 9), num_workers=2) as vec:
        vec.reset(seed=0)
        monkeypatch.setattr(ray, "get", get)
        doubtful = vec._links[0]._actor = Doubtful(vec._links[0]._actor, executed)  # type: ignore[attr-defined]
        result = vec.step([0, 0, 0])
        assert doubtful.asked == 2 and places(result.observations) == [(slot, 0, 1) for slot in range(3)]
        assert vec.get_attr("steps") == [1, 1, 1] and not vec.lost_rows.any()
        vec._links[0]._actor = doubtful._actor  # type: ignore[attr-defined]


# ---- failures --------------------------------------------------------------------------------------


def test_a_failing_step_names_the_slot_and_its_process() -> None:
    with build("ray", "same_step", (9, 9, 9), num_workers=2) as vec:
        vec.reset(seed=0)
        with pytest.raises(sekai.VecEnvWorkerError, match=r"^Sub-env 2 raised ValueError: slot 2 went boom") as caught:
            vec.step([0, 0, BOOM])
        assert caught.value.pid == vec.call("where")[2] and "misbehave(int(action)" in caught.value.remote_traceback
        assert vec.step([0, 0, 0]).kind.tolist() == [LOST] * 3


@pytest.mark.parametrize("action", [DIE, INTERRUPT])
def test_a_dead_actor_is_reported_by_every_later_call_and_the_others_are_released(action: int) -> None:
    vec = build_from([factory(Coded, slot) for slot in range(3)], "ray", num_workers=2)
    vec.reset(seed=0)
    pids = vec.call("where")
    for call in (lambda: vec.step([0, 0, action]), lambda: vec.step([0, 0, 0]), lambda: vec.get_attr("t"), vec.reset):
        with pytest.raises(
            sekai.VecEnvWorkerError, match=r"^Sub-env 2 raised EOFError: worker process exited unexpectedly \(The actor"
        ) as caught:
            call()
        assert (caught.value.rank, caught.value.pid) == (2, pids[2])
    vec.close()
    assert all(gone(pid) for pid in pids)


class Told(Coded):
    """Writes down in which process it is being built, and fails."""

    def __init__(self, slot: int, path: str, fail: Callable[[], Any]) -> None:
        with open(path, "a", encoding="ascii") as file:
            file.write(f"{os.getpid()}\n")
        fail()
        super().__init__(slot)


@pytest.mark.parametrize(
    ("fail", "text"),
    [
        (lambda: 1 / 0, "^Sub-env 1 raised ZeroDivisionError"),
        (
            lambda: os._exit(3),
            r"^Sub-env 1 raised EOFError: worker process exited unexpectedly .* while it was starting",
        ),
        (lambda: time.sleep(60), r"^Sub-env 1 raised TimeoutError: not built within start_timeout, or no machine has"),
    ],
)
def test_a_construction_that_fails_leaves_no_actor(fail: Any, text: str, tmp_path: Any) -> None:
    path = str(tmp_path / "pids")
    with pytest.raises(sekai.VecEnvWorkerError, match=text):
        sekai.RayVecEnv(
            [factory(Told, slot, path, (fail if slot else int)) for slot in range(2)],
            start_timeout=5.0,
            close_timeout=0.5,
        )
    pids = [int(line) for line in open(path, encoding="ascii")]  # noqa: SIM115
    assert len(pids) == 2 and all(gone(pid) for pid in pids)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"resources": [1]}, TypeError, r"resources is \[1\]; expected a dict of actor options, such as"),
        ({"resources": {"max_restarts": 2}}, ValueError, "resources has 'max_restarts'; expected some of accelerator_"),
        ({"address": "nowhere:1"}, ValueError, "address is 'nowhere:1', and this process is connected to Ray at"),
        ({"num_workers": 3}, ValueError, "num_workers is 3; expected 1 to 2"),
        ({"on_worker_loss": "ignore"}, ValueError, "on_worker_loss is 'ignore'"),
        (
            {"resources": {"num_cpus": 64}, "start_timeout": 0.5, "close_timeout": 0.1},
            sekai.VecEnvWorkerError,
            r"not built within start_timeout, or no machine has room for {'num_cpus': 64}; free: {.*'CPU': ",
        ),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        sekai.RayVecEnv([factory(Coded, 0), factory(Coded, 1)], **arguments)


@pytest.mark.parametrize("resources", [{"num_cpus": 0.1}, {"num_cpus": 0.1, "scheduling_strategy": "DEFAULT"}])
def test_actors_get_their_options_and_are_spread_unless_told_otherwise(
    resources: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, Any]] = []
    original = ray.actor.ActorClass.options
    monkeypatch.setattr(
        ray.actor.ActorClass, "options", lambda self, **options: given.append(options) or original(self, **options)
    )
    sekai.RayVecEnv([factory(Coded, 0)], resources=resources).close()
    assert given == [{"scheduling_strategy": "SPREAD", **resources}]


def test_where_ray_is_missing_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs Ray: pip install 'sekai-rl\[ray\]'\."):
        sekai.RayVecEnv([factory(Coded, 0)])


# ---- lost workers ----------------------------------------------------------------------------------


def check_survivors(vec: Any, same: Any, survivors: list[int], calls: int) -> None:
    """Step both; the rows of the survivors are those of sync."""
    for call in range(calls):
        actions = [(call + slot) % 5 for slot in range(vec.num_envs)]
        one, other = vec.step(actions), same.step(actions)
        for slot in survivors:
            assert np.array_equal(one.observations[slot], other.observations[slot])
            assert one.kind[slot] == other.kind[slot] and one.rewards[slot] == other.rewards[slot]
            assert Infos.of([one.infos[slot]]) == Infos.of([other.infos[slot]])


def check_loss(vec: Any, same: Any, lost: list[int], survivors: list[int]) -> None:
    """The call in which workers were lost: their slots begin anew, the others go on."""
    one, other = vec.step([0] * vec.num_envs), same.step([0] * vec.num_envs)
    for slot in lost:
        assert one.kind[slot] == LOST and not one.dones[slot] and one.rewards[slot] == 0.0
        assert one.infos[slot]["worker_lost"] and places(one.observations)[slot] == (slot, 0, 0)
        assert draws(one.observations)[slot] != draws(other.observations)[slot]
    for slot in survivors:
        assert one.kind[slot] == other.kind[slot] and "worker_lost" not in one.infos[slot]
        assert np.array_equal(one.observations[slot], other.observations[slot])


def on_two_nodes(vec: Any, nodes: Any) -> tuple[list[int], list[int]]:
    """The slots on the node to which this process is connected, and those on the other."""
    where = vec.call("node")
    here = [slot for slot, node in enumerate(where) if node == nodes.head_node.node_id]
    there = [slot for slot, node in enumerate(where) if node == next(iter(nodes.worker_nodes)).node_id]
    assert len(here + there) == vec.num_envs
    return here, there


def lose(nodes: Any, pids: list[int]) -> None:
    """Lose the second node, and with it, at once, the processes that run there."""
    nodes.remove_node(next(iter(nodes.worker_nodes)), allow_graceful=False)
    for pid in pids:
        with suppress(ProcessLookupError):  # it has gone with the node
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("mode", MODES)
def test_an_actor_is_killed_and_then_a_node_and_the_run_goes_on(two_nodes: Any, mode: str) -> None:
    fns = [factory(Placed, slot, 4 + slot) for slot in range(4)]
    with (
        sekai.RayVecEnv(fns, autoreset=mode, on_worker_loss="restart") as vec,
        sekai.SyncVecEnv(fns, autoreset=mode) as same,
    ):
        vec.reset(seed=7)
        same.reset(seed=7)
        check_survivors(vec, same, [0, 1, 2, 3], 3)
        survivors, (victim, *others) = on_two_nodes(vec, two_nodes)
        assert survivors, "actors are spread over the nodes"
        os.kill(vec.call("where")[victim], signal.SIGKILL)
        check_loss(vec, same, [victim], survivors + others)
        check_survivors(vec, same, survivors + others, 4)
        lost, pids = on_two_nodes(vec, two_nodes)[1], vec.call("where")
        lose(two_nodes, [pids[slot] for slot in lost])
        check_loss(vec, same, lost, survivors)
        check_survivors(vec, same, survivors, 20)
        assert vec.worker_restarts == 1 + len(lost) and set(vec.call("node")) == {two_nodes.head_node.node_id}


def test_a_lost_node_is_an_error_where_nobody_asked_for_restarts(two_nodes: Any) -> None:
    with sekai.RayVecEnv([factory(Placed, slot, 99) for slot in range(4)]) as vec:
        vec.reset(seed=0)
        _, lost = on_two_nodes(vec, two_nodes)
        pids = vec.call("where")
        lose(two_nodes, [pids[slot] for slot in lost])
        with pytest.raises(sekai.VecEnvWorkerError, match=rf"^Sub-env {lost[0]} raised EOFError: .*its node has died"):
            vec.step([0] * 4)


def test_replaced_slots_have_the_attributes_and_the_streams_that_a_process_would_have() -> None:
    drawn = []
    for cls in (sekai.RayVecEnv, sekai.ProcVecEnv):
        with cls([factory(Coded, slot, 99) for slot in range(3)], num_workers=2, on_worker_loss="restart") as vec:
            vec.reset(seed=4)
            vec.set_attr("length", [7, 8, 9])
            result = vec.step([DIE, 0, 0])
            assert result.kind.tolist() == [LOST, LOST, STEP] and vec.worker_restarts == 1
            assert vec.get_attr("length") == [7, 8, 9]
            drawn.append((draws(result.observations), places(vec.step([0, 0, 0]).observations)))
    assert drawn[0] == drawn[1]


class Doomed(Coded):
    """Cannot begin a second episode alive, nor can its successors."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        if options is None:
            os._exit(3)
        return super().reset(seed=seed, options=options)


def test_a_worker_that_always_dies_is_given_up() -> None:
    with sekai.RayVecEnv([factory(Doomed, 0), factory(Coded, 1, 99)], on_worker_loss="restart") as vec:
        vec.reset(seed=0, options={"at": 0})
        with pytest.raises(sekai.VecEnvWorkerError, match=r"^Sub-env 0 raised EOFError: worker process exited"):
            vec.step([DIE, 0])
        assert vec.worker_restarts == 0  # none of the new ones came to stand in its place


# ---- who starts and ends Ray -----------------------------------------------------------------------

SCRIPT = """
import os, signal, sys, time
import numpy as np, sekai

class Here(sekai.Env):
    observation_space, action_space = sekai.Box(-1.0, 1.0, shape=(2,)), sekai.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self._set_rng(seed)
        return sekai.ResetResult(np.zeros(2, np.float32), {})

    def step(self, action):
        return sekai.StepResult(np.zeros(2, np.float32), 1.0, False, False, {})

    def where(self):
        return os.getpid()

def build():
    return sekai.RayVecEnv([Here] * 2, num_workers=1, address=ADDRESS)

"""


def run_script(text: str, address: str | None, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"ADDRESS = {address!r}\n{SCRIPT}{text}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_ray_that_was_started_here_ends_with_the_last_that_uses_it() -> None:
    text = """
assert "ray" not in sys.modules
one, two = build(), build()
import ray
print(os.environ["RAY_USAGE_STATS_ENABLED"], len(ray.nodes()))
pids = [vec.call("where")[0] for vec in (one, two)]
one.close()
print(ray.is_initialized(), two.reset(seed=0).observations.shape, two.step([0, 1]).rewards)
two.close()
print(ray.is_initialized())
three = build()
print(three.reset(seed=0).dones)
ray.shutdown()
try:
    three.step([0, 1])
except sekai.VecEnvWorkerError as error:
    print(error)
three.close()
print(ray.is_initialized())
for pid in pids:
    for _ in range(100):
        try: os.kill(pid, 0)
        except ProcessLookupError: break
        time.sleep(0.05)
    else:
        print("still there")
"""
    said = re.sub(r"pid \d+", "pid ...", run_script(text, "local"))
    assert said.splitlines() == [
        "0 1",
        "True (2, 2) [1. 1.]",
        "False",
        "[False False]",
        "Worker 0 (sub-envs 0-1) raised EOFError: worker process exited unexpectedly (Ray was shut down, pid ...)",
        "False",
    ]


def test_a_cluster_that_runs_is_joined_and_left_as_it_was(two_nodes: Any) -> None:
    text = """
vec = build()
import ray
print(len([node for node in ray.nodes() if node["Alive"]]), vec.reset(seed=0).dones)
vec.close()
print(ray.is_initialized())
ray.init(logging_level="error")
build().close()
print(ray.is_initialized())
"""
    assert run_script(text, None, RAY_ADDRESS=two_nodes.address).splitlines() == ["2 [False False]", "False", "True"]
