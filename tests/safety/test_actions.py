"""Actions: what a policy chooses, what the environment is given, and what is learned from, on both paths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
torch.set_num_threads(1)  # networks this small only wait for a second one

from gymnasium import spaces  # noqa: E402

import sekai  # noqa: E402
from sekai.compat import to_sb3  # noqa: E402
from sekai.safety.action_box import ActionBox  # noqa: E402
from sekai.safety.chain import changes_actions  # noqa: E402
from sekai.safety.learners import SafetyA2C, SafetyDQN, SafetyPPO, SafetySAC  # noqa: E402
from sekai.safety.tensor import TensorFromNative, TensorStep, TensorVecEnv  # noqa: E402
from tests.safety.chain import Walk  # noqa: E402


class Pushed(TensorVecEnv):
    """x moves by where the action lies in the box: -1 at its lower bound, 1 at its upper one; g = 2.5 - |x|.

    `share` is what is executed of an action; None: all of it, and nothing is said about it.
    """

    def __init__(self, low: float = -1.0, high: float = 1.0, *, share: float | None = None) -> None:
        super().__init__(4, spaces.Box(-9.0, 9.0, (1,), np.float32), spaces.Box(low, high, (1,), np.float32))
        self.low, self.high, self.share = low, high, share
        self.x, self.given = torch.zeros(4), []

    def reset_tensor(self) -> Any:
        self.x = torch.zeros(4)
        return self.x[:, None]

    def step_tensor(self, actions: Any) -> TensorStep:
        self.given.append(actions.clone())
        executed = actions if self.share is None else actions * self.share
        after = self.x + 2 * (executed[:, 0] - self.low) / (self.high - self.low) - 1
        g = 2.5 - after.abs()
        self.x = torch.where(g < 0, 0.0, after)
        told = None if self.share is None else executed
        return TensorStep(self.x[:, None], g, g < 0, torch.zeros(4, dtype=torch.bool), executed=told)


class Filtered(Walk):
    """Executes at most 0, and says so for the first `slots` slots."""

    def __init__(self, *, box: bool, slots: int = 3) -> None:
        super().__init__(box=box)
        self.slots = slots

    def step_wait(self) -> Any:
        self.executed[-1] = np.minimum(self.executed[-1], 0)
        observations, g, done, infos = super().step_wait()
        for slot in range(self.slots):
            infos[slot]["executed_action"] = self.executed[-1][slot]
        return observations, g, done, infos


def options(cls: Any) -> dict[str, Any]:
    on: dict[Any, Any] = {SafetyPPO: {"n_steps": 16, "batch_size": 32, "n_epochs": 2}, SafetyA2C: {"n_steps": 16}}
    return {"device": "cpu", "seed": 0, "policy_kwargs": {"net_arch": [8]}, **on.get(cls, {"learning_starts": 20})}


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 5.0), (-0.1, 0.1)])
@pytest.mark.parametrize("cls", [SafetyPPO, SafetyA2C])
def test_what_is_executed_is_the_place_of_the_choice_in_the_box(cls: Any, low: float, high: float) -> None:
    env = Pushed(low, high)
    model = cls("MlpPolicy", env, learning_rate=0.0, **options(cls))
    model.learn(64)
    chosen, given = model.rollout_buffer.actions, torch.stack(env.given)
    assert float(chosen.abs().max()) > 1.5  # kept as they were drawn
    torch.testing.assert_close(given, low + (chosen.clamp(-1, 1) + 1) / 2 * (high - low))
    assert float(given.min()) >= np.float32(low) and float(given.max()) <= np.float32(high)
    # the probability is that of the choice: of what was executed it would be another
    batch = next(model.rollout_buffer.get())
    log_prob = model.policy.evaluate_actions(batch.observations, batch.actions)[1]
    torch.testing.assert_close(batch.old_log_prob, log_prob)


@pytest.mark.parametrize("cls", [SafetyPPO, SafetySAC])
def test_a_box_elsewhere_is_learned_from_as_well_as_one_around_zero(cls: Any) -> None:
    def learned(low: float, high: float) -> Any:
        return cls("MlpPolicy", Pushed(low, high), **options(cls)).learn(200)

    around, elsewhere, rows = learned(-1.0, 1.0), learned(0.0, 5.0), np.linspace(-2, 2, 9, dtype=np.float32)[:, None]
    np.testing.assert_allclose(elsewhere.predict_value(rows), around.predict_value(rows), atol=1e-3)
    # [-1, 1] is stretched to 2.5 and lies around 2.5
    actions = [model.predict(rows, deterministic=True)[0] for model in (elsewhere, around)]
    np.testing.assert_allclose(actions[0], 2.5 + 2.5 * actions[1], atol=1e-3)
    assert elsewhere.predict(rows[0])[0].shape == (1,)


def test_both_paths_execute_the_same() -> None:
    def rows(env: Any) -> Any:
        model = SafetyPPO("MlpPolicy", env, n_steps=64, batch_size=256, device="cpu", seed=0)
        return model.learn(256).rollout_buffer

    def native() -> Any:
        return sekai.make_vec("safety/DoubleIntegrator-v0", 4, vectorization_mode="native", acceleration=0.1)

    arrays, tensors = rows(to_sb3(native())), rows(TensorFromNative(native()))
    for name in ("observations", "actions", "g"):
        torch.testing.assert_close(getattr(arrays, name), getattr(tensors, name))


def test_replay_keeps_what_a_simulator_says_it_executed() -> None:
    env = Pushed(-2.0, 2.0, share=0.5)
    model = SafetySAC("MlpPolicy", env, **options(SafetySAC)).learn(40)
    given = torch.stack(env.given)
    # half of it was executed, and the box is [-2, 2]: a = u / 2
    torch.testing.assert_close(model.replay_buffer.actions[: len(given)], given * 0.5 / 2)
    ppo = SafetyPPO("MlpPolicy", Pushed(-2.0, 2.0, share=0.5), **options(SafetyPPO)).learn(64)
    assert float(ppo.rollout_buffer.actions.abs().max()) > 1.5  # choices, whose probabilities are known


@pytest.mark.parametrize("box", [True, False])
def test_replay_keeps_what_an_info_says_was_executed(box: bool) -> None:
    cls: Any = SafetySAC if box else SafetyDQN
    env = Filtered(box=box)
    model = cls("MlpPolicy", env, **options(cls)).learn(60)
    kept = model.replay_buffer.actions[: len(env.executed), :, 0].numpy()
    executed = np.stack(env.executed).reshape(kept.shape)
    # the box is [-1, 3]: a = (u - 1) / 2
    np.testing.assert_allclose(kept, (executed - 1) / 2 if box else executed, atol=1e-6)
    with pytest.raises(LookupError, match="The info of sub-env 2 has no 'executed_action', and that of others has one"):
        cls("MlpPolicy", Filtered(box=box, slots=2), **options(cls)).learn(6)


def test_what_was_executed_in_other_units_is_not_read_back() -> None:
    def native() -> Any:
        return sekai.make_vec("safety/DoubleIntegrator-v0", 4, vectorization_mode="native", acceleration=0.5)

    rescaled = sekai.VecRescaleAction(native(), -1.0, 1.0)
    assert changes_actions(to_sb3(rescaled)) and not changes_actions(to_sb3(native()))
    for env in (to_sb3(rescaled), TensorFromNative(rescaled)):
        model = SafetySAC("MlpPolicy", env, **options(SafetySAC)).learn(100)
        assert float(model.replay_buffer.actions.abs().max()) > 0.6  # in the units inside 0.5 at most
    tensors = TensorFromNative(native())
    tensors.reset_tensor()
    assert tensors.step_tensor(torch.full((4, 1), 0.25)).executed.tolist() == [[0.25]] * 4


def test_bounds_are_met_exactly_and_a_box_without_width_stays_a_number() -> None:
    low, high = np.array([-0.1, 0.3, 2.0], np.float32), np.array([0.7, 0.9, 2.0], np.float32)
    box = ActionBox(spaces.Box(low, high), "cpu")
    np.testing.assert_array_equal(box.unscaled(torch.tensor([[-7.0] * 3, [7.0] * 3])), [low, high])
    chosen = torch.tensor([[0.25, -1.0, 0.0]])
    torch.testing.assert_close(box.scaled(box.unscaled(chosen)), chosen)


def test_bounds_of_float64_are_met_exactly_too() -> None:
    low, high = np.array([-0.1, 0.2]), np.array([0.1, 0.3])
    assert np.float32(0.1) > high[0] and np.float32(-0.1) < low[0], "rounded to float32 they lie outside"
    box = ActionBox(spaces.Box(low, high, dtype=np.float64), "cpu")
    np.testing.assert_array_equal(box.unscaled(torch.tensor([[-7.0] * 2, [7.0] * 2])), [low, high])
    chosen = torch.tensor([[0.25, -1.0]])
    scaled = box.scaled(box.unscaled(chosen))
    assert scaled.dtype == torch.float32
    torch.testing.assert_close(scaled, chosen)
