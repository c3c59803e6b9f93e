"""What gymnasium and Stable-Baselines3 say of every registered environment, and what they can do with one."""

from __future__ import annotations

import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check
from stable_baselines3.common.env_checker import check_env as sb3_check

import sekai
from sekai.envs.builtin import CLASSIC_CONTROL, OWN

IDS = [*OWN, *CLASSIC_CONTROL]  # and not what other tests have registered

# What the two checkers may warn of; anything else fails. All of it is true of the environments and meant so.
ALLOWED = (
    "A Box observation space minimum value is -infinity",
    "A Box observation space maximum value is infinity",
    "For Box action spaces, we recommend using a symmetric and normalized space",
    "We recommend you to use a symmetric and normalized Box action space",
    "Your observation returns has an unconventional shape",  # (lookback, n_assets) of Portfolio-v0
)


def unexpected(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(w.message) for w in caught if not any(allowed in str(w.message) for allowed in ALLOWED)]


def test_the_list_of_ids_is_that_of_the_registry():
    assert {"CartPole-v1", "Pendulum-v1", "Trading-v0", "Portfolio-v0"} < set(IDS)
    assert set(IDS) <= {spec.id for spec in sekai.all_specs()}


@pytest.mark.parametrize("id", IDS)
def test_gymnasium_finds_nothing_wrong(id):
    env = sekai.make(id)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gymnasium_check(env.unwrapped, skip_render_check=True)
    assert unexpected(caught) == []
    env.close()


@pytest.mark.parametrize("id", IDS)
def test_stable_baselines3_finds_nothing_wrong(id):
    env = sekai.make(id)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sb3_check(env, warn=True, skip_render_check=True)
    assert unexpected(caught) == []
    env.close()


def test_the_checkers_do_find_a_wrong_observation():
    """Negative control: both reject an environment whose observation lies outside its space."""

    class Wrong(sekai.Env):
        observation_space = sekai.Box(0.0, 1.0, shape=(1,))
        action_space = sekai.Discrete(2)

        def reset(self, *, seed=None, options=None):
            self._set_rng(seed)
            return sekai.ResetResult(np.full(1, 2.0, np.float32), {})

        def step(self, action):
            return sekai.StepResult(np.full(1, 2.0, np.float32), 0.0, False, False, {})

    for check in (lambda env: gymnasium_check(env, skip_render_check=True), sb3_check):
        with pytest.raises(AssertionError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check(Wrong())


def test_gymnasium_wrappers_and_vector_envs_take_a_sekai_env():
    env = gymnasium.wrappers.RecordEpisodeStatistics(sekai.make("CartPole-v1"))
    env.reset(seed=0)
    ended = False
    while not ended:
        _, _, terminated, truncated, info = env.step(env.action_space.sample())
        ended = terminated or truncated
    assert info["episode"]["l"] == info["elapsed_steps"]
    vec = gymnasium.vector.SyncVectorEnv([lambda: sekai.make("CartPole-v1")] * 2)
    observations, _ = vec.reset(seed=0)
    assert observations.shape == (2, 4)
    vec.close()


@pytest.mark.parametrize("id", ["CartPole-v1", "Trading-v0"])
def test_ppo_learns_without_a_single_warning(id):
    script = (
        "import sekai\n"
        "from stable_baselines3 import PPO\n"
        f"model = PPO('MlpPolicy', sekai.make({id!r}), n_steps=256, device='cpu').learn(2000)\n"
        "assert model.num_timesteps >= 2000\n"
        "print('learned')\n"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "learned\n"
