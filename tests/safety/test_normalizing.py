"""Observations normalised inside the policy: which of them count, and that what is saved says the same."""

from __future__ import annotations

import subprocess
import sys
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
torch.set_num_threads(1)  # networks this small only wait for a second one

from gymnasium import spaces  # noqa: E402
from stable_baselines3.common.vec_env import VecNormalize  # noqa: E402

import sekai  # noqa: E402
from sekai.safety.learners import SafetyA2C, SafetyDQN, SafetyPPO, SafetySAC, resolve_learner  # noqa: E402
from sekai.safety.learners.normalizing import NormalizedFeatures, ObservationNormalizer  # noqa: E402
from sekai.safety.tensor import SafetyTensorEnv, TensorVecNormalize  # noqa: E402
from sekai.safety.tensor.statistics import RunningMoments  # noqa: E402
from sekai.stats import RunningStats  # noqa: E402
from tests.safety.chain import Walk  # noqa: E402

ALGORITHMS = ("ppo", "a2c", "sac", "dqn")
ON_POLICY = ("ppo", "a2c")
ROWS = np.array([[0.0, 2.0], [2.0, -0.4], [1.0, 5.0]], np.float32)


def learner(algorithm: str, env: Any = None, **more: Any) -> Any:
    """A small learner that normalises, on a walk where no environment is given."""
    cls = resolve_learner("avoid", algorithm)
    options: dict[str, Any] = {"n_steps": 8} if algorithm in ON_POLICY else {"learning_starts": 12}
    options |= {"batch_size": 24, "n_epochs": 2} if algorithm == "ppo" else {}
    options |= {"device": "cpu", "seed": 0, "policy_kwargs": {"net_arch": [8]}, "normalize_observations": True, **more}
    return cls("MlpPolicy", Walk(box=algorithm == "sac") if env is None else env, **options)


def moments(model: Any) -> tuple[int, Any, Any]:
    """Rows taken in by the only statistics of a policy, their mean and their variance."""
    (statistics,) = model.policy.normalizer.statistics
    count = int(statistics.count)
    return count, statistics.mean.numpy(), statistics.squares.numpy() / max(count, 1)


def acted_on(model: Any) -> Any:
    """All observations that were acted on, as the buffer has them, `(rows, D)`."""
    if hasattr(model, "rollout_buffer"):
        return model.rollout_buffer.observations.flatten(0, 1).numpy()
    buffer = model.replay_buffer
    return buffer.observations[: buffer.size()].flatten(0, 1).numpy()


@pytest.mark.parametrize("bootstrap", [False, True])
def test_statistics_are_those_of_the_observations_that_were_acted_on(bootstrap: bool) -> None:
    model = learner("ppo", n_steps=4, batch_size=12, learning_rate=0.0, bootstrap_on_timeout=bootstrap)
    model.policy.action_net.bias.data = torch.tensor([-50.0, 50.0])  # always right
    model.learn(12)
    # each of the slots 0, 1, 2 was at x = 2, 3, 4, 5, was cut at 6 and began anew at 2. Seen were 12 rows:
    #   slots: mean 1, variance (1 + 0 + 1) / 3; x: mean 3.5, variance (1.5^2 + .5^2 + .5^2 + 1.5^2) / 4 = 1.25
    # not the 6 of the last observation, nor the 2 after it, which would make 3.2
    count, mean, variance = moments(model)
    assert count == 12
    np.testing.assert_allclose(mean, [1.0, 3.5])
    np.testing.assert_allclose(variance, [2 / 3, 1.25])
    # (0 - 1) / sqrt(2 / 3) and (6 - 3.5) / sqrt(1.25)
    normalised = model.policy.normalizer(torch.tensor([[0.0, 6.0]]))
    np.testing.assert_allclose(normalised, [[-1.224745, 2.236068]], rtol=1e-6)

    for look in (model.predict, model.predict_value, model.certificate):
        look(np.full((50, 2), 9.0, np.float32))
    assert moments(model)[0] == 12
    model.learn(12, reset_num_timesteps=False)
    assert moments(model)[0] == 24  # the same rows again
    np.testing.assert_allclose(moments(model)[1], [1.0, 3.5])


@pytest.mark.parametrize(
    ("algorithm", "tensors"),
    [*((algorithm, False) for algorithm in ALGORITHMS), *((algorithm, True) for algorithm in ("ppo", "a2c", "sac"))],
)
def test_every_learner_takes_in_each_row_once_and_keeps_it_as_it_was(algorithm: str, tensors: bool) -> None:
    model = learner(algorithm, SafetyTensorEnv(3, "DoubleIntegrator") if tensors else None)
    model.learn(24)  # one rollout; off-policy four updates of four batches as well
    rows = acted_on(model).astype(np.float64)
    assert len(rows) == 24
    if not tensors:
        assert set(rows[:, 0]) == {0.0, 1.0, 2.0} and rows[0, 1] == 2.0  # raw, also in the replay
    count, mean, variance = moments(model)
    assert count == 24
    np.testing.assert_allclose(mean, rows.mean(axis=0))
    np.testing.assert_allclose(variance, rows.var(axis=0))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_values_and_actions_of_raw_observations_are_those_of_normalised_ones(algorithm: str) -> None:
    model = learner(algorithm)
    model.learn(48)
    _, mean, variance = moments(model)
    by_hand = ((ROWS - mean) / np.sqrt(variance + 1e-8)).astype(np.float32)
    plain = learner(algorithm, normalize_observations=False)
    state = {name: value for name, value in model.policy.state_dict().items() if "normalizer" not in name}
    plain.policy.load_state_dict(state)
    np.testing.assert_allclose(model.predict_value(ROWS), plain.predict_value(by_hand), atol=1e-6)
    np.testing.assert_array_equal(model.certificate(ROWS), plain.predict_value(by_hand) >= 0)
    actions, wanted = (m.predict(rows, deterministic=True)[0] for m, rows in ((model, ROWS), (plain, by_hand)))
    np.testing.assert_allclose(actions, wanted, atol=1e-6)
    assert not np.allclose(plain.predict_value(ROWS), model.predict_value(ROWS), atol=1e-3)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_without_the_option_nothing_is_normalised_and_networks_begin_alike(algorithm: str) -> None:
    normalising, plain = learner(algorithm), learner(algorithm, normalize_observations=False)
    state = plain.policy.state_dict()
    assert not [name for name in state if "normalizer" in name]
    assert all(torch.equal(value, normalising.policy.state_dict()[name]) for name, value in state.items())
    # before the first row nothing is scaled
    np.testing.assert_array_equal(normalising.predict_value(ROWS), plain.predict_value(ROWS))


@pytest.mark.parametrize("algorithm", ["ppo", "sac", "dqn"])
def test_actor_critic_and_target_have_one_set_of_statistics(algorithm: str, tmp_path: Any) -> None:
    model = learner(algorithm)
    if algorithm == "ppo":
        model = learner("ppo", policy_kwargs={"net_arch": [8], "share_features_extractor": False})
    model.learn(24)
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model", device="cpu")
    for policy in (model.policy, loaded.policy, deepcopy(loaded.policy)):
        parts = [module for module in policy.modules() if isinstance(module, NormalizedFeatures)]
        assert len(parts) == {"ppo": 2, "sac": 3, "dqn": 2}[algorithm]
        assert all(part.normalizer is policy.normalizer for part in parts)


def test_a_model_that_was_saved_says_the_same_in_another_process(tmp_path: Any) -> None:
    values, actions = {}, {}
    for algorithm in ("ppo", "sac"):
        model = learner(algorithm)
        model.learn(48)
        model.save(tmp_path / algorithm)
        values[algorithm] = model.predict_value(ROWS)
        actions[algorithm] = model.predict(ROWS, deterministic=True)[0]
    np.save(tmp_path / "rows.npy", ROWS)
    program = (
        "import sys, numpy as np, torch\n"
        "from sekai.safety.learners import resolve_learner\n"
        "torch.set_num_threads(1)\n"
        "folder = sys.argv[1]\n"
        "rows = np.load(folder + '/rows.npy')\n"
        "for algorithm in ('ppo', 'sac'):\n"
        "    model = resolve_learner('avoid', algorithm).load(folder + '/' + algorithm, device='cpu')\n"
        "    np.save(f'{folder}/{algorithm}-values.npy', model.predict_value(rows))\n"
        "    np.save(f'{folder}/{algorithm}-actions.npy', model.predict(rows, deterministic=True)[0])\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=120)
    for algorithm in values:
        np.testing.assert_array_equal(np.load(tmp_path / f"{algorithm}-values.npy"), values[algorithm])
        np.testing.assert_array_equal(np.load(tmp_path / f"{algorithm}-actions.npy"), actions[algorithm])


SLOTS = spaces.Discrete(3)


class Parts(Walk):
    """A walk that is observed in two parts, `x` in floats and the slot as a choice."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict({"x": spaces.Box(-10.0, 10.0, (1,), np.float32), "slot": SLOTS})

    def reset(self) -> Any:
        return self.split(super().reset())

    def step_wait(self) -> Any:
        observations, g, done, infos = super().step_wait()
        for info in infos:
            if "terminal_observation" in info:
                info["terminal_observation"] = self.split(info["terminal_observation"])
        return self.split(observations), g, done, infos

    def split(self, rows: Any) -> Any:
        return {"x": rows[..., 1:], "slot": rows[..., 0].astype(np.int64)}


def test_of_several_parts_those_in_floats_are_normalised() -> None:
    model = SafetyPPO(
        "MultiInputPolicy", Parts(), n_steps=8, batch_size=24, device="cpu", seed=0, normalize_observations=True
    )
    model.learn(24)
    x = model.rollout_buffer.observations["x"].double()
    (statistics,) = model.policy.normalizer.statistics
    np.testing.assert_allclose(statistics.mean, [x.mean()])
    seen = model.policy.normalizer({"x": torch.tensor([[4.0]]), "slot": torch.tensor([1])})
    assert float(seen["x"]) == pytest.approx(float((4.0 - x.mean()) / x.std(unbiased=False)), rel=1e-5)
    assert seen["slot"].tolist() == [1]


@pytest.mark.parametrize("space", [SLOTS, spaces.Box(0, 255, (3, 36, 36), np.uint8), spaces.Dict({"a": SLOTS})])
def test_what_has_no_floats_cannot_be_normalised(space: Any) -> None:
    with pytest.raises(TypeError, match="normalize_observations=True needs a Box of floats in the observation space"):
        ObservationNormalizer(space)
    with pytest.raises(TypeError, match="normalize_observations is 'True'; expected True or False"):
        learner("ppo", normalize_observations="True")


def test_moments_are_those_of_numpy_and_nothing_is_read_from_the_device() -> None:
    rng = np.random.default_rng(0)
    statistics, reference, rows = RunningMoments((2,), clip=10.0), RunningStats((2,)), []
    for size in (1, 7, 3):
        rows.append(rng.normal([1000.0, -3.0], [0.1, 20.0], (size, 2)))
        statistics.update(torch.as_tensor(rows[-1]))
        reference.update(rows[-1])
    together = np.concatenate(rows)
    np.testing.assert_allclose(statistics.mean, together.mean(axis=0))
    np.testing.assert_allclose(statistics.squares / 11, together.var(axis=0))
    np.testing.assert_allclose(statistics.squares / statistics.count, reference.var)
    assert float(statistics(torch.tensor([2000.0, 0.0]))[0]) == 10.0  # clipped
    nowhere = RunningMoments((2,), clip=10.0, device="meta")  # its numbers cannot be read
    nowhere.update(torch.empty((3, 2), device="meta"))
    nowhere(torch.empty((3, 2), device="meta"))


CANNOT = "cannot use this environment: "


def layered(seed: int = 0) -> TensorVecNormalize:
    env = SafetyTensorEnv(3, "DoubleIntegrator")
    env.seed(seed)
    return TensorVecNormalize(env, clip=3.0)


@pytest.mark.parametrize("name", ["ppo", "sac"])
def test_a_tensor_layer_is_the_option_and_its_statistics_are_the_policy_s(name: str, tmp_path: Any) -> None:
    layer = layered()
    model = learner(name, layer, normalize_observations=False).learn(90)
    inside = SafetyTensorEnv(3, "DoubleIntegrator")
    inside.seed(0)
    plain = learner(name, inside, normalize_observations=True)
    plain.policy.normalizer.statistics[0].clip.fill_(3.0)
    plain.learn(90)
    far = np.array([[0.3, -0.2], [50.0, 1.0]], np.float32)  # the second row is clipped
    np.testing.assert_array_equal(model.predict_value(far), plain.predict_value(far))
    assert layer.state_dict()["count"] == model.num_timesteps and layer.observation_space == inside.observation_space
    np.testing.assert_array_equal(layer.reset(), layer.observations.numpy())
    assert abs(float(layer.observations.mean())) < 3 and not np.allclose(
        layer.reset(), layer.normalize(layer.observations).numpy()
    )  # raw: the policy normalises

    model.save(tmp_path / "model")
    again = layered()
    loaded = type(model).load(tmp_path / "model", env=again, device="cpu")
    np.testing.assert_array_equal(loaded.predict_value(far), model.predict_value(far))
    assert torch.equal(again.state_dict()["mean"], layer.state_dict()["mean"])
    again.training = False
    loaded.learn(30, reset_num_timesteps=False)
    assert torch.equal(again.state_dict()["mean"], layer.state_dict()["mean"])  # frozen
    other = layered()
    loaded.set_env(other)
    assert torch.equal(other.state_dict()["mean"], layer.state_dict()["mean"])


def test_learners_of_one_tensor_layer_have_statistics_of_their_own(tmp_path: Any) -> None:
    layer = layered()
    first = learner("ppo", layer, normalize_observations=False).learn(48)
    first.save(tmp_path / "model")
    kept = first.predict_value(ROWS)
    second = learner("ppo", layer, normalize_observations=False)
    np.testing.assert_array_equal(moments(second)[1], moments(first)[1])  # it begins with those of the layer
    second.learn(48)
    np.testing.assert_array_equal(first.predict_value(ROWS), kept)
    assert moments(second)[0] == 96 == int(layer.state_dict()["count"]), "the layer has those of the newest"
    trained = second.predict_value(ROWS)
    third = SafetyPPO.load(tmp_path / "model", env=layer, device="cpu")
    np.testing.assert_array_equal(third.predict_value(ROWS), kept)
    np.testing.assert_array_equal(second.predict_value(ROWS), trained)


def test_a_tensor_layer_is_refused_where_the_policy_has_learned_from_raw_rows(tmp_path: Any) -> None:
    model = SafetyPPO("MlpPolicy", SafetyTensorEnv(3, "DoubleIntegrator"), device="cpu")
    model.save(tmp_path / "model")
    layer = layered()
    message = "has learned from raw observations, and TensorVecNormalize would normalise them: give the environment"
    with pytest.raises(ValueError, match=f"^This SafetyPPO {message}"):
        model.set_env(layer)
    with pytest.raises(ValueError, match=message):
        SafetyPPO.load(tmp_path / "model", env=layer)
    assert not layer.handed_over


def test_a_tensor_layer_below_another_is_refused() -> None:
    message = (
        f"^SafetyPPO {CANNOT}normalize_observations is True, and TensorVecNormalize normalises its observations as well"
    )
    with pytest.raises(ValueError, match=message):
        SafetyPPO("MlpPolicy", TensorVecNormalize(layered()), device="cpu")


def test_observations_are_not_normalised_twice(tmp_path: Any) -> None:
    def twice() -> VecNormalize:
        return VecNormalize(Walk(), norm_reward=False)

    message = (
        f"SafetyPPO {CANNOT}normalize_observations is True, and VecNormalize normalises its observations as well. "
        "Leave one of them out."
    )
    with pytest.raises(ValueError, match=f"^{message}$"):
        learner("ppo", twice())
    learner("ppo", VecNormalize(Walk(), norm_reward=False, norm_obs=False)).learn(24)
    learner("ppo", twice(), normalize_observations=False).learn(24)
    learner("ppo").save(tmp_path / "model")
    with pytest.raises(ValueError, match="Leave one of them out"):
        SafetyPPO.load(tmp_path / "model", env=twice())


def test_a_layer_whose_statistics_go_on_is_not_replayed() -> None:
    def layered(**options: Any) -> Any:
        return sekai.VecNormalizeObservation(sekai.make_vec("safety/DoubleIntegrator-v0", 3), **options)

    message = (
        "SafetySAC cannot use this environment: observations would be replayed as VecNormalizeObservation normalised "
        "them, by statistics that have moved since. Leave it out, and give the learner normalize_observations=True."
    )
    with pytest.raises(ValueError, match=f"^{message}$"):
        SafetySAC("MlpPolicy", layered(), device="cpu")
    standing = layered()
    standing.update_running_mean = False
    SafetySAC("MlpPolicy", standing, device="cpu")
    SafetyA2C("MlpPolicy", layered(), device="cpu")  # learns at once
    SafetyDQN("MlpPolicy", VecNormalize(Walk(), norm_reward=False), device="cpu")  # has the raw ones
