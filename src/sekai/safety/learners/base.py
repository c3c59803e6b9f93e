"""`SafetyLearner`: what safety learners have beyond Stable-Baselines3's: mode, discount, failure value, certificate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.preprocessing import is_image_space, maybe_transpose
from stable_baselines3.common.save_util import load_from_zip_file

from sekai.compat import to_sb3
from sekai.safety.action_box import ActionBox
from sekai.safety.arrays import Tensor
from sekai.safety.backups import Mode, check_terminal_type
from sekai.safety.chain import normalizing_layer
from sekai.safety.contract import declared, require_margins
from sekai.safety.discount import DEFAULT_HORIZON_S, Annealing, gamma_of
from sekai.safety.floors import FailureFloor
from sekai.safety.learners.normalizing import normalize_inside
from sekai.safety.learners.options import require_known
from sekai.safety.refusals import require_one_player, require_own_statistics
from sekai.safety.steps import ArrayStepper, MarginStep, RewardWatch, Stepper
from sekai.safety.tensor.env import as_numpy, is_tensor_env
from sekai.safety.tensor.normalize import TensorVecNormalize
from sekai.safety.tensor.stepper import TensorStepper, copied
from sekai.vector import VecEnv

#: seconds of a step where the environment does not say
DEFAULT_DT = 0.05
#: observations that are valued together: those of a grid of three axes at once would take gigabytes
ROWS_AT_ONCE = 2**16


class SafetyLearner(BaseAlgorithm):  # type: ignore[misc]  # SB3 is an extra, and read as Any
    """The part of a safety learner that does not depend on the algorithm.

    Args:
        policy, env: as for the SB3 class; a `sekai.VecEnv` is taken as it is, through `to_sb3`.
        gamma: discount of a step, or an `Annealing`; by default what `horizon_s` says.
        horizon_s: horizon in seconds, `dt / (1 - gamma)`: by default 5 for avoid and 50 for reach-avoid, which is 0.99
            and 0.999 per 0.05 s.
        failure_value: what a failed step is worth at most, see `FailureFloor`.
        terminal_type: what the last state of an episode is worth in reach-avoid: `"all"` min(l, g), `"g"` its g.
        bootstrap_on_timeout: whether a timeout is backed up from its last observation; by default it ends the backup.
        normalize_observations: whether the policy normalises what it observes, by running statistics that are saved
            with it; see `sekai.safety.learners.normalizing`. The learner is given raw observations, everywhere. An
            `env` that is a `TensorVecNormalize` means the same, with its statistics, which it hands over.
        sb3: further arguments of the SB3 class.

    Raises:
        TypeError: an argument that neither this class nor the SB3 class knows.

    Attributes:
        mode: `"avoid"` or `"reach-avoid"`.
        players: 1, or 2 where a disturbance learns against the controller.
        replays: whether it learns from rows that were stored long ago.
        dt: seconds of a step, as the environment declares it.
        trained_behind: name of the layer that normalised what it was given to observe, by statistics that the model
            does not have; None for none.
    """

    mode: ClassVar[Mode]
    players: ClassVar[int] = 1
    replays: ClassVar[bool] = False
    dt: float = DEFAULT_DT
    trained_behind: str | None = None
    _learns_from_executed: ClassVar[bool] = False  # actions that the environment says it executed
    _last_obs: Any

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        gamma: float | Annealing | None = None,
        horizon_s: float | None = None,
        failure_value: Any = "auto",
        terminal_type: str = "all",
        bootstrap_on_timeout: bool = False,
        normalize_observations: bool = False,
        **sb3: Any,
    ) -> None:
        require_known(type(self), sb3)
        if gamma is not None and horizon_s is not None:
            raise ValueError(f"gamma is {gamma} and horizon_s {horizon_s}; give one of them.")
        if not (gamma is None or isinstance(gamma, Annealing) or 0.0 < gamma <= 1.0):
            raise ValueError(f"gamma is {gamma}; expected a number above 0, at most 1, or an Annealing.")
        if not isinstance(normalize_observations, bool):
            raise TypeError(f"normalize_observations is {normalize_observations!r}; expected True or False.")
        self.trained_mode: str = self.mode
        self.trained_players: int = self.players
        self.terminal_type = check_terminal_type(terminal_type)
        self.bootstrap_on_timeout = bool(bootstrap_on_timeout)
        self.failure_value = failure_value
        self.normalize_observations, self._handed_over = normalize_observations, None
        if isinstance(env, TensorVecNormalize):
            self.normalize_observations = True
            self._require(env.env)
            self._handed_over = env.hand_over()
        self._horizon_s, self._given_gamma = horizon_s, gamma
        FailureFloor(failure_value, self.mode)  # refuse it before anything is built
        super().__init__(policy, env, gamma=0.99, **{**self._sb3_options(_num_envs(env), sb3), **sb3})
        if env is not None:
            self._take_env()

    def _sb3_options(self, num_envs: int, given: dict[str, Any]) -> dict[str, Any]:
        """Arguments of the SB3 class where the user gives none."""
        return {}

    def _setup_model(self) -> None:
        super()._setup_model()
        if self.normalize_observations:
            normalize_inside(self.policy, self._handed_over)

    # ---- the environment -----------------------------------------------------------------------

    @staticmethod
    def _wrap_env(env: Any, verbose: int = 0, monitor_wrapper: bool = True) -> Any:
        if isinstance(env, VecEnv):
            env = to_sb3(env)
        if isinstance(env, gymnasium.vector.VectorEnv):
            raise TypeError(
                f"Given {env!r}, a vector environment of gymnasium; expected one of sekai, such as "
                "sekai.SyncVecEnv([make] * 16), or sekai.compat.from_gymnasium_vector(env)."
            )
        return BaseAlgorithm._wrap_env(env, verbose, monitor_wrapper)

    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Go on with another environment of the same spaces.

        Raises:
            ValueError: its margins would not arrive as they are, or not its observations, see
                `sekai.safety.refusals`.
        """
        if isinstance(env, TensorVecNormalize):
            _require_normalizing(self.normalize_observations, f"This {type(self).__name__}")
            self._require(env.env)
            env.hand_over(self.policy.normalizer.statistics[0])
        self._require(env)
        super().set_env(env, force_reset)
        self._take_env()

    def _take_env(self) -> None:
        """Look at a new environment before anything is learned from it."""
        self._require(self.env)
        layer = normalizing_layer(self.env)
        self.trained_behind = None if layer is None else layer.name
        self._floor = FailureFloor(self.failure_value, self.mode)
        self._look_up()

    def _require(self, env: Any) -> None:
        name = type(self).__name__
        require_margins(env, self.mode, learner=name)
        if self.players == 1:
            require_one_player(env, learner=name)
        require_own_statistics(env, normalizes=self.normalize_observations, replays=self.replays, learner=name)

    def _look_up(self) -> None:
        """Ask what the environment declares, once: each question may go to other processes."""
        dt, horizon, g_range = map(self._declared, ("dt", "failure_horizon_s", "g_range"))
        self.dt = DEFAULT_DT if dt is None else float(dt)
        self.gamma = self._gamma_now()
        self._watch = RewardWatch(self.mode, declared=self._declared("provides_l") is not None)
        self._floor.declare(
            steps=None if horizon is None else max(1.0, horizon / self.dt),
            g_max=None if g_range is None else float(g_range[1]),
        )

    def _declared(self, name: str) -> Any:
        """What the environment declares; None where it does not. Of several sub-environments the first speaks."""
        return next((value for _, value in declared(self.env, name)), None)

    def _stepper(self) -> Stepper:
        if is_tensor_env(self.env):
            return TensorStepper(self.env, self.mode, finals=self.bootstrap_on_timeout)
        return ArrayStepper(
            self.env,
            self.mode,
            self.device,
            finals=self.bootstrap_on_timeout,
            watch=self._watch,
            executed=self._learns_from_executed,
        )

    def _setup_learn(
        self, total_timesteps: int, callback: Any = None, reset_num_timesteps: bool = True, *args: Any, **kwargs: Any
    ) -> Any:
        begins = reset_num_timesteps or self._last_obs is None
        prepared = super()._setup_learn(total_timesteps, callback, reset_num_timesteps, *args, **kwargs)
        if begins:
            self._floor.begin()
        if is_tensor_env(self.env):
            if self.env.observations is None:  # a loaded learner goes on where it was
                self.env.observations = self._tensors(self._last_obs)
            self._last_obs = copied(self.env.observations)
        return prepared

    @contextmanager
    def _collecting(self) -> Iterator[Stepper]:
        """What steps the environment; meanwhile nothing is read from a device that is asked to be left alone."""
        with self._unchecked():
            yield self._stepper()

    @contextmanager
    def _unchecked(self) -> Iterator[None]:
        """On a tensor environment torch does not look at the arguments of distributions: it would wait each time."""
        checks = torch.distributions.Distribution._validate_args
        if is_tensor_env(self.env):
            torch.distributions.Distribution.set_default_validate_args(False)
        try:
            yield
        finally:
            torch.distributions.Distribution.set_default_validate_args(checks)

    def _tensors(self, observations: Any) -> Any:
        """Observations on the device."""
        if isinstance(observations, dict):
            return {key: self._tensors(part) for key, part in observations.items()}
        return torch.as_tensor(observations, device=self.device)

    def _taken_in(self, observations: Any) -> Any:
        """Observations to act on, on the device; the statistics of the policy go on with them."""
        rows = self._tensors(observations)
        if self.normalize_observations:
            self.policy.normalizer.update(rows)
        return rows

    @property
    def _box(self) -> ActionBox | None:
        """The box of the actions; None for other spaces."""
        box: ActionBox | None = getattr(self, "_known_box", None)
        if box is None and isinstance(self.action_space, spaces.Box):
            box = self._known_box = ActionBox(self.action_space, self.device)
        return box

    def _executed(self, actions: Tensor) -> Tensor:
        """What the environment is given for actions of the policy: in a box, their place in it."""
        box = self._box
        return actions if box is None else box.unscaled(actions)

    # ---- discount and failure value ------------------------------------------------------------

    def _gamma_now(self) -> float:
        gamma = self._given_gamma
        if isinstance(gamma, Annealing):
            return gamma(self.num_timesteps)
        if gamma is not None:
            return float(gamma)
        return gamma_of(DEFAULT_HORIZON_S[self.mode] if self._horizon_s is None else self._horizon_s, self.dt)

    def _logged_failure_value(self) -> float | None:
        """The failure value for the discount of now, which is logged with the risk that it leaves."""
        found = self._floor.value(self.gamma)
        self.logger.record("safety/gamma", self.gamma)
        if found is None:
            return None
        self.logger.record("safety/failure_value", found.value)
        if found.risk is not None:
            self.logger.record("safety/risk", found.risk)
        return found.value

    def _log(self, numbers: dict[str, float]) -> None:
        for name, number in numbers.items():
            self.logger.record(f"safety/{name}", number)

    def _see(self, step: MarginStep) -> None:
        self._floor.see(step.g, step.terminated, step.terminated | step.timeouts)

    # ---- saving --------------------------------------------------------------------------------

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_known_box", "_handed_over", "_watch"]

    def learned_networks(self) -> dict[str, Any]:
        """The networks that learn, by name: what another run may begin with."""
        return {"policy": self.policy}

    def take_weights(self, source: SafetyLearner) -> None:
        """Take over the weights of the networks of a learner that has the same ones."""
        for name, network in source.learned_networks().items():
            self.learned_networks()[name].load_state_dict(network.state_dict())

    def save(self, path: Any, exclude: Any = None, include: Any = None) -> None:
        """Save as the SB3 class does; nothing in the file is bound to a device."""
        here = self._last_obs
        self._last_obs = None if here is None else as_numpy(here)
        try:
            super().save(path, exclude, include)
        finally:
            self._last_obs = here

    @classmethod
    def load(cls, path: Any, env: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Load a model that this class has saved; a `TensorVecNormalize` as `env` takes over its statistics.

        Raises:
            ValueError: it was saved by a learner of another mode, or by one that has none, or by one of another number
                of players; or it was trained on raw observations and `env` normalises them.
        """
        data, _, _ = load_from_zip_file(path, device="cpu")
        mode = (data or {}).get("trained_mode")
        if mode != cls.mode:
            raise ValueError(
                f"{path} was saved by a learner of mode {mode!r}, and {cls.__name__} is of mode {cls.mode!r}: load it "
                "with the class that saved it."
            )
        players = data.get("trained_players", 1)
        if players != cls.players:
            raise ValueError(
                f"{path} was saved by a learner of {players} player(s), and {cls.__name__} has {cls.players}: load it "
                "with the class that saved it."
            )
        if isinstance(env, TensorVecNormalize):
            _require_normalizing(data["normalize_observations"], str(path))
            env.hand_over()  # before the spaces are compared; the statistics of the file are loaded into its own
        learner = super().load(path, env, *args, **kwargs)
        if learner.env is not None:
            learner._require(learner.env)  # the options are known only now
            learner._look_up()  # it may be another than the one of the file
        return learner

    # ---- certificates --------------------------------------------------------------------------

    def predict_value(self, observations: Any) -> np.ndarray[Any, Any]:
        """V of observations, `(...)` for `(..., *observation_shape)`; V >= 0 is what is called safe.

        It leaves out the margin of the observed state itself, see `sekai.safety.backups`. Observations are those that
        the environment hands out: raw with `normalize_observations=True`, and normalised where one of its layers does
        it.
        """
        raise NotImplementedError

    def _on_rows(self, observations: Any, value: Callable[[Any], Tensor]) -> np.ndarray[Any, Any]:
        """The value of each observation, with the leading axes that they have."""
        space = self.observation_space
        key = None if not isinstance(space, spaces.Dict) else next(iter(space.spaces))
        leaf = np.asarray(observations if key is None else observations[key])
        shape = (space if key is None else space[key]).shape
        if key is None and is_image_space(space) and leaf.shape[-3:] != shape:
            leaf = maybe_transpose(leaf, space)  # as `predict` does: SB3 has channels first
        leading = leaf.shape[: leaf.ndim - len(shape)]
        if leaf.shape[len(leading) :] != shape:
            raise ValueError(f"The observations have shape {leaf.shape}; expected (..., *{shape}).")
        flat: Any = (
            leaf.reshape(-1, *shape)
            if key is None
            else {name: np.asarray(part).reshape(-1, *space[name].shape) for name, part in observations.items()}
        )
        values = np.empty(math.prod(leading), np.float32)
        self.policy.set_training_mode(False)
        with torch.no_grad():
            for start in range(0, len(values), ROWS_AT_ONCE):
                some = slice(start, start + ROWS_AT_ONCE)
                part = flat[some] if key is None else {name: rows[some] for name, rows in flat.items()}
                values[some] = value(self.policy.obs_to_tensor(part)[0]).flatten().cpu().numpy()
        return values.reshape(leading)

    def certificate(self, observations: Any) -> np.ndarray[Any, Any]:
        """Whether observations are called safe: `predict_value(observations) >= 0`, bool."""
        safe: np.ndarray[Any, Any] = self.predict_value(observations) >= 0
        return safe


def _require_normalizing(normalizes: bool, whose: str) -> None:
    if not normalizes:
        raise ValueError(
            f"{whose} has learned from raw observations, and TensorVecNormalize would normalise them: give the "
            "environment inside."
        )


def _num_envs(env: Any) -> int:
    """Slots of what is given as environment; a single one, or its id, will be one slot."""
    return int(env.num_envs) if hasattr(env, "num_envs") else 1
