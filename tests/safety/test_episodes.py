"""Certificates of environments: whole episodes from their own resets, each counted whatever becomes of it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import sekai
from sekai.compat import from_gymnasium_vector, to_sb3
from sekai.safety.assumptions import assumptions, errors, meaning
from sekai.safety.calibration import Plan
from sekai.safety.certify import Certificate, certify
from sekai.safety.contract import MarginWrapper
from sekai.safety.episodes import EpisodeTrials
from sekai.safety.saving import save_certificate
from sekai.safety.starts import PATIENCE
from sekai.safety.systems import DoubleIntegrator
from sekai.vector import VecEnv
from sekai.vector.wrappers import VecClipAction, VecNormalizeObservation

ANY = (-np.inf, np.inf)
FEW = Plan(rollouts=300, steps=20)


class Fates(gymnasium.Env[Any, Any]):
    """The first observation x, spread over [0, 1), says what will happen, to who can read it.

    g is 1, and below 0 in step `fails_in` where x < 0.25; l is below 0, and 0.5 in step `reaches_in` where x >= 0.5.
    An episode is cut after `length` steps.
    """

    provides_l = False
    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(
        self, fails_in: int = 2, length: int = 12, reaches_in: int | None = None, ends_on_target: bool = False
    ) -> None:
        self.fails_in, self.length, self.reaches_in = fails_in, length, reaches_in
        self.ends_on_target = ends_on_target
        self.provides_l = reaches_in is not None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.fate, self.t = float(np.float32(self.np_random.random())), 0
        return np.array([self.fate], np.float32), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        failed = self.t == self.fails_in and self.fate < 0.25
        reached = self.t == self.reaches_in and self.fate >= 0.5
        info = {} if self.reaches_in is None else {"l_x": 0.5 if reached else -0.5}
        ends = failed or (reached and self.ends_on_target)
        # later observations are those of another fate: only the first one counts
        return np.array([1.0 - self.fate], np.float32), -0.5 if failed else 1.0, ends, self.t == self.length, info


class Reader:
    """Does nothing, and values a first observation x as told."""

    def __init__(self, value: Any = lambda x: x - 0.25) -> None:
        self.value = value

    def predict(self, observation: Any, *, deterministic: bool = False) -> Any:
        assert deterministic
        return np.zeros((len(observation), 1), np.float32), None

    def predict_value(self, observations: Any) -> Any:
        return self.value(np.asarray(observations, np.float64)[..., 0])


def vec_of(num_envs: int, *, autoreset: str = "same_step", kind: Any = sekai.SyncVecEnv, **options: Any) -> VecEnv:
    vec: VecEnv = kind([lambda: Fates(**options)] * num_envs, autoreset=autoreset)
    return vec


def played(vec: VecEnv, count: int, *, steps: int = 20, low: float = -np.inf, high: float = np.inf) -> Any:
    trials = EpisodeTrials(Reader(lambda x: x), vec, steps=steps, seed=0)
    found = trials.play(low, high, count)
    return found.values, found.fails["nobody"]


@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
@pytest.mark.parametrize("num_envs", [1, 7, 64])
def test_every_episode_is_counted_for_the_state_that_it_began_in(autoreset: str, num_envs: int) -> None:
    with vec_of(num_envs, autoreset=autoreset) as vec:
        for count in (1, 30, 100):
            values, broken = played(vec, count)
            assert values.shape == broken.shape == (count,) and len(np.unique(values)) == count
            assert (broken == (values < 0.25)).all()


@pytest.mark.parametrize("kind", [sekai.AsyncVecEnv, sekai.ProcVecEnv], ids=["async", "proc"])
def test_other_backends_count_alike(kind: Any) -> None:
    with vec_of(3, kind=kind) as vec, vec_of(3) as sync:
        for one, other in zip(played(vec, 40), played(sync, 40), strict=True):
            assert (one == other).all()


def test_short_episodes_are_not_counted_more_often_than_long_ones() -> None:
    # a quarter fails, after 1 step, the others take 200: 64 slots end 64 short ones before the first long one ends.
    # Of 400 draws 100 are expected, with a deviation of sqrt(400 * .25 * .75) = 8.7
    with vec_of(64, fails_in=1, length=200) as vec:
        values, broken = played(vec, 400, steps=200)
    assert 100 - 3 * 8.7 < broken.sum() < 100 + 3 * 8.7 and (broken == (values < 0.25)).all()


def test_which_episodes_count_is_settled_by_the_resets_alone() -> None:
    ways: list[dict[str, Any]] = [{"length": 2}, {"length": 12}, {"length": 12, "fails_in": 9}]
    found = []
    for way in ways:
        for autoreset in ("next_step", "disabled"):  # same_step resets once more, and so draws others
            with vec_of(5, autoreset=autoreset, **way) as vec:
                found.append(played(vec, 100, low=0.1, high=0.7)[0])
    assert all((values == found[0]).all() for values in found[1:])


def test_slots_of_short_episodes_are_not_counted_more_often() -> None:
    class Safe(Fates):
        def step(self, action: Any) -> Any:
            return self.observation_space.low, 1.0, True, False, {}

    class Doomed(Fates):
        def step(self, action: Any) -> Any:
            self.t += 1
            return self.observation_space.low, 1.0 if self.t < 50 else -1.0, self.t == 50, False, {}

    with sekai.SyncVecEnv([Safe, Doomed]) as vec:
        trials = EpisodeTrials(Reader(lambda x: x), vec, steps=60, seed=0)
        assert trials.play(*ANY, 101).fails["nobody"].sum() == 50  # slot 0 has the first turn, and so one more


def test_only_first_states_of_the_range_are_played_and_their_values_are_spread_over_it() -> None:
    with vec_of(8) as vec:
        values, broken = played(vec, 200, low=0.2, high=0.3)
        assert values.min() >= 0.2 and values.max() < 0.3
        # half of the range fails: 100, with a deviation of sqrt(200) / 2 = 7.1
        assert 100 - 3 * 7.1 < broken.sum() < 100 + 3 * 7.1


def test_states_that_are_too_rare_are_given_up() -> None:
    with vec_of(4) as vec:
        values, broken = played(vec, 5, low=2.0)
        assert values.shape == broken.shape == (0,)
        trials = EpisodeTrials(Reader(), vec, steps=5, seed=0)
        assert trials.values(2.0, np.inf, 3).shape == (0,) and trials.drawn == 3 * PATIENCE


def test_no_more_steps_are_looked_at_than_was_said() -> None:
    with vec_of(4, fails_in=10, length=50) as vec:
        assert not played(vec, 50, steps=9)[1].any()
        values, broken = played(vec, 50, steps=10)
        assert (broken == (values < 0.25)).all() and broken.any()
    with vec_of(4, fails_in=10, length=9) as vec:  # the time limit comes before
        assert not played(vec, 50)[1].any()


@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
@pytest.mark.parametrize("ends_on_target", [False, True])
def test_a_target_counts_where_it_is_reached_before_a_failure(autoreset: str, ends_on_target: bool) -> None:
    options: dict[str, Any] = {"autoreset": autoreset, "reaches_in": 4, "ends_on_target": ends_on_target}
    with vec_of(5, fails_in=3, **options) as vec:
        values, broken = played(vec, 100)
        assert (broken == (values < 0.5)).all()  # below 0.25 it failed, between it never came there
    with vec_of(5, fails_in=3, length=4, **options) as vec:  # reached in the very step that is cut
        values, broken = played(vec, 100)
        assert (broken == (values < 0.5)).all()
    with vec_of(5, fails_in=3, length=3, **options) as vec:
        assert played(vec, 20)[1].all()


def test_what_happens_after_the_target_does_not_count() -> None:
    class Late(Fates):
        def step(self, action: Any) -> Any:
            observation, _, _, cut, info = super().step(action)
            failed = self.t == 6  # everybody, at last
            return observation, -1.0 if failed else 1.0, failed, cut, info

    with sekai.SyncVecEnv([lambda: Late(reaches_in=4)] * 3) as vec:
        values, broken = played(vec, 60)
        assert (broken == (values < 0.5)).all()


def test_a_target_counts_nothing_in_the_step_that_fails() -> None:
    class Both(Fates):
        def step(self, action: Any) -> Any:
            observation, _, _, cut, info = super().step(action)
            return observation, -1.0 if self.t == 4 else 1.0, self.t == 4, cut, info

    with sekai.SyncVecEnv([lambda: Both(reaches_in=4)] * 3) as vec:
        assert played(vec, 30)[1].all()


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_vector_environments_of_gymnasium_count_alike(mode: str) -> None:
    made = [lambda: Fates(fails_in=3, reaches_in=4, ends_on_target=True)] * 5
    theirs = gymnasium.vector.SyncVectorEnv(made, autoreset_mode=gymnasium.vector.AutoresetMode(mode))
    with from_gymnasium_vector(theirs) as vec:
        values, broken = played(vec, 100)
        assert (broken == (values < 0.5)).all()


def found(value: Any, env: Any, **options: Any) -> Certificate:
    return certify(Reader(value), env, **{"plan": FEW, **options})


@pytest.mark.parametrize("bold", [0.1, 0.3])
def test_a_value_that_is_too_bold_by_a_constant_is_cut_by_about_that(bold: float) -> None:
    with vec_of(16) as vec:
        certificate = found(lambda x: x - 0.25 + bold, vec, risk=0.05)
    assert certificate.threshold is not None and certificate.edge is not None and certificate.whole is not None
    # of the edge, 0.075 wide, 5 % may fail
    assert bold - 0.004 < certificate.threshold < bold + 0.02
    assert certificate.whole.at_most <= 0.05 and certificate.edge.at_most <= 0.05
    assert certificate.share == pytest.approx(0.75, abs=0.05) and certificate.opponents == ()
    assert certificate.sets is None and certificate.sets_before is None
    assert str(certificate).startswith(f"Certified: from initial states with V ≥ {certificate.threshold:.4g}, ")


def test_one_environment_does_and_is_left_open() -> None:
    class Closes(Fates):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    env = Closes()
    certificate = found(lambda x: x - 0.25, env)
    assert certificate.threshold == 0.0 and certificate.share == pytest.approx(0.75, abs=0.05)
    # 300 episodes without a failure: 1 - .05^(1 / 300)
    assert certificate.whole is not None and certificate.whole.failed == {"nobody": 0}
    assert certificate.whole.at_most == pytest.approx(0.009936, abs=1e-6)
    assert env.closed == 0


def test_where_nothing_can_be_certified_the_reason_is_told() -> None:
    with vec_of(16) as vec:
        never = found(lambda x: x - 2.0, vec, plan=Plan(rollouts=300, steps=5))
        wrong = found(lambda x: 0.26 - x, vec)
    assert never.threshold is None and never.reason.startswith("only 0 of 150,000 initial states")
    assert float(never.reason.rpartition("the highest value of any was ")[2]) == pytest.approx(-1.0, abs=1e-3)
    assert wrong.threshold is None and "no threshold is found" in str(wrong)


def test_episodes_are_others_than_those_of_the_same_seed_in_training_and_the_same_each_time() -> None:
    with vec_of(4) as vec:
        first = EpisodeTrials(Reader(lambda x: x), vec, steps=5, seed=0).pool(100)
        again = EpisodeTrials(Reader(lambda x: x), vec, steps=5, seed=0).pool(100)
        other = EpisodeTrials(Reader(lambda x: x), vec, steps=5, seed=1).pool(100)
        seen = [vec.reset(seed=0).observations[:, 0], *(vec.reset().observations[:, 0] for _ in range(30))]
    assert (first == again).all() and not np.isin(first, other).any()
    assert not np.isin(first, np.concatenate(seen)).any()


def test_no_state_is_drawn_once_all_episodes_have_begun() -> None:
    with vec_of(8) as vec:
        trials = EpisodeTrials(Reader(lambda x: x), vec, steps=20, seed=0)
        trials.play(*ANY, 5)
        assert trials.drawn == 8  # each slot once, of which five were taken
        trials.play(*ANY, 8)
        assert trials.drawn == 16


def test_the_promise_is_that_of_the_learner() -> None:
    class Avoids(Reader):
        mode = "avoid"

    with vec_of(16, reaches_in=4) as vec:
        certificate = certify(Avoids(), vec, plan=FEW)
        assumed = assumptions(certificate)
        told, errs = meaning(certificate)[0], errors(certificate)
        assert found(lambda x: x - 0.5, vec).about.mode == "reach-avoid"
    assert certificate.about.mode == assumed["mode"] == "avoid" and certificate.threshold == 0.0
    assert "the policy does not fail within 20 steps" in told and errs[0]["errs"] == "bold"


def test_a_margin_that_is_no_number_is_a_failure() -> None:
    class Silent(Fates):
        def step(self, action: Any) -> Any:
            observation, reward, *rest = super().step(action)
            return observation, np.nan if reward < 0 else reward, *rest

    with sekai.SyncVecEnv([Silent] * 3) as vec:
        values, broken = played(vec, 60)
        assert (broken == (values < 0.25)).all()


def test_a_set_that_the_shares_have_missed_is_told_of_all_the_same() -> None:
    with vec_of(16) as vec:
        certificate = found(lambda x: x - 0.25, vec)
    rare = replace(certificate, share_before=0.0, share=0.0)
    assert str(certificate).endswith("of those with V ≥ 0.")
    assert str(rare).endswith("These are 0.0 % of all initial states.")


def test_progress_is_told_by_the_episode() -> None:
    told: list[int] = []
    with vec_of(8) as vec:
        found(lambda x: x - 0.25, vec, advance=told.append)
    # the set and its edge choose, and check; and some more are played than count
    assert 4 * 300 <= sum(told) < 4 * 350 and max(told) <= 8
    told.clear()
    # at 2 m/s at most nobody comes from within 0.7 m to a wall at 1 m in two steps of 0.05 s
    inner = Reader(lambda x: 0.7 - abs(x))
    certify(inner, DoubleIntegrator(), risk=0.1, plan=Plan(rollouts=100, steps=2), advance=told.append)
    assert told == [100] * 4


def test_a_system_and_its_environment_are_certified_alike() -> None:
    class Brakes(Reader):
        def predict(self, observation: Any, *, deterministic: bool = False) -> Any:
            return np.clip(-observation[:, 1:] / 0.05, -1.0, 1.0), None

        def predict_value(self, observations: Any) -> Any:
            x, v = np.asarray(observations, np.float64).T  # 0.2 m too bold
            return 1.2 - np.maximum(abs(x), abs(x + v * abs(v) / 2)) - 0.05

    plan = Plan(rollouts=600, steps=60)
    by_states = certify(Brakes(), DoubleIntegrator(), plan=plan)
    with sekai.make_vec("safety/DoubleIntegrator-v0", 64) as vec:
        by_episodes = certify(Brakes(), vec, plan=plan)
    assert by_states.threshold is not None and by_episodes.threshold is not None
    assert by_episodes.threshold == pytest.approx(by_states.threshold, abs=0.02)
    assert by_episodes.share == pytest.approx(by_states.share, abs=0.04)


def test_a_threshold_holds_in_the_floats_of_the_learner() -> None:
    class Steps(Fates):
        """First observations of five kinds, of which those up to 0.3 fail."""

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self.kind = self.np_random.choice(np.array([0.1, 0.3, 0.5, 0.7, 0.9], np.float32))
            self.fate = 0.0 if self.kind < 0.4 else 1.0
            return np.array([self.kind], np.float32), {}

    class Single(Reader):
        def predict_value(self, observations: Any) -> Any:
            return observations[..., 0]

    with sekai.SyncVecEnv([Steps] * 8) as vec:
        certificate = certify(Single(), vec, risk=0.05, plan=Plan(rollouts=200, steps=5))
    assert certificate.threshold is not None and certificate.share == pytest.approx(0.6, abs=0.05)
    kinds = np.array([[0.1], [0.3], [0.5]], np.float32)
    assert (Single().predict_value(kinds) >= certificate.threshold).tolist() == [False, False, True]


def test_values_that_are_all_the_same_have_an_edge_too() -> None:
    with vec_of(4) as vec:
        fine = found(lambda x: np.ones_like(x), vec, risk=0.5)
        bad = found(lambda x: np.ones_like(x), vec, risk=0.1)
    assert fine.threshold == 0.0 and fine.share == 1.0 and fine.edge is not None and fine.edge.rollouts == 300
    assert bad.threshold is None and "no threshold is found" in bad.reason


def test_the_environment_in_which_a_learner_trains_is_refused() -> None:
    pytest.importorskip("stable_baselines3")
    from sekai.safety.learners import SafetyPPO

    with vec_of(2) as own, vec_of(2) as another:
        learner = SafetyPPO("MlpPolicy", own, n_steps=32, seed=0, device="cpu").learn(64)
        with pytest.raises(ValueError, match=r"is where the learner trains, .* give an environment of its own"):
            certify(learner, own, plan=FEW)
        certify(learner, another, risk=0.5, plan=Plan(rollouts=20, steps=3))
        learner.learn(64, reset_num_timesteps=False)


def test_pictures_are_valued_as_they_come_from_the_environment() -> None:
    pytest.importorskip("stable_baselines3")
    from sekai.safety.learners import SafetyPPO

    class Pictures(Fates):
        """Brightness says what will happen; channels last, as most environments have them."""

        observation_space = gymnasium.spaces.Box(0, 255, (36, 36, 1), np.uint8)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            return np.full((36, 36, 1), int(255 * self.fate), np.uint8), {}

        def step(self, action: Any) -> Any:
            return np.zeros((36, 36, 1), np.uint8), *super().step(action)[1:]

    def build() -> VecEnv:
        return sekai.SyncVecEnv([Pictures] * 2)

    learner = SafetyPPO("CnnPolicy", build(), n_steps=8, batch_size=16, n_epochs=1, seed=0, device="cpu").learn(16)
    rows = build().reset(seed=0).observations
    values = learner.predict_value(rows)
    assert values.shape == (2,) and (values == learner.predict_value(rows.transpose(0, 3, 1, 2))).all()
    assert learner.predict_value(rows[0]).shape == ()
    found = EpisodeTrials(learner, build(), steps=3, seed=0).play(-9.0, 9.0, 10)
    assert found.values.shape == (10,)


def test_resets_that_begin_the_same_again_are_refused_and_a_constant_first_state_is_not() -> None:
    class Again(Fates):
        last: int | None = None

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.last = self.last if seed is None else seed
            return super().reset(seed=self.last)

    class Constant(Fates):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self.fate = 0.5
            return np.array([0.5], np.float32), {}

    with sekai.SyncVecEnv([Again] * 2) as vec, pytest.raises(ValueError, match="20 resets of sub-env 0 without a seed"):
        found(lambda x: x, vec)
    with sekai.SyncVecEnv([Constant] * 2) as vec:
        assert found(lambda x: x, vec).threshold == 0.0


def test_files_are_written_of_an_environment_that_is_closed_by_then(tmp_path: Path) -> None:
    class Untimed(Fates):
        dt = None

    with sekai.ProcVecEnv([Untimed] * 16, num_workers=2) as vec:
        certificate = found(lambda x: x - 0.25, vec, risk=0.1, plan=Plan(rollouts=40, steps=3))
    (tmp_path / "certificate.html").write_text("of another")
    save_certificate(certificate, tmp_path, html=False)
    assert json.loads((tmp_path / "certificate.json").read_text())["assumed"]["seconds"] is None
    assert not (tmp_path / "certificate.html").exists()


def test_the_files_say_what_was_played(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with vec_of(16) as vec:
        certificate = found(lambda x: x - 0.15, vec)
        save_certificate(certificate, tmp_path / "new")
    kept = json.loads((tmp_path / "new" / "certificate.json").read_text())
    assert kept["iou"] is None and kept["calibrated"]["threshold"] == certificate.threshold
    by_value = kept["calibrated"]["by_value"]
    assert len(by_value["values"]) == 20 and by_value["failures"][0] > 0.9 and by_value["failures"][-1] == 0.0
    assert kept["assumed"]["system"] == "SyncVecEnv > Fates" and kept["assumed"]["mode"] == "avoid"
    assert kept["assumed"]["seconds"] is None and kept["assumed"]["disturbances"] is None
    page = (tmp_path / "new" / "certificate.html").read_text(encoding="utf-8")
    for said in (
        "<title>Reader on Fates</title>",
        "does not fail within 20 steps, or until the episode ends, except with a probability of at most 1 %",
        "in this environment, with its own randomness",
        "by reset() of the environment, with the options None",
        "Upper bounds at 95%.",
    ):
        assert said in page, said
    assert "Beside the exact set" not in page and page.count("<img") == 1


class Adversarial(Fates):
    ctrl_action_dim = 1


class Untold(Fates):
    def step(self, action: Any) -> Any:
        return *super().step(action)[:4], {}


class Wordy(Fates):
    def step(self, action: Any) -> Any:
        return *super().step(action)[:4], {"l_x": None}


def optioned() -> VecEnv:
    return sekai.SyncVecEnv([Fates], autoreset_options=lambda slot, episode: {"hard": True})


@pytest.mark.parametrize(
    ("make", "options", "error", "message"),
    [
        (lambda: gymnasium.make("CartPole-v1"), {}, ValueError, "does not say that its reward is a margin"),
        (lambda: Fates, {}, TypeError, "or one environment: give sekai.SyncVecEnv([make] * 16)"),
        (
            lambda: gymnasium.vector.SyncVectorEnv([Fates]),
            {},
            TypeError,
            "or one environment: give sekai.compat.from_gymnasium_vector(env)",
        ),
        (lambda: sekai.SyncVecEnv([Fates, lambda: Fates(reaches_in=2)]), {}, ValueError, "Some sub-envs of "),
        (Adversarial, {}, ValueError, "declares ctrl_action_dim = 1: the rest of an action is the disturbance's"),
        (
            lambda: gymnasium.wrappers.NormalizeObservation(Fates()),
            {},
            ValueError,
            "The statistics of NormalizeObservation may be moving",
        ),
        (lambda: gymnasium.wrappers.ClipReward(Fates(), -1, 1), {}, ValueError, "ClipReward"),
        (Fates, {"opponents": {"zero": lambda s, u: s}}, ValueError, "opponents is given, and an environment: "),
        (Fates, {"truth": lambda s: s}, ValueError, "truth is given, and an environment: "),
        (Fates, {"best_response_steps": 5}, ValueError, "best_response_steps is given, and an environment: "),
        (optioned, {}, ValueError, "has autoreset_options, and these episodes are begun by reset"),
        (lambda: VecClipAction(optioned()), {}, ValueError, "has autoreset_options"),
        (lambda: Wordy(reaches_in=1), {}, TypeError, "info['l_x'] of sub-env 0 is None; expected one number"),
        (lambda: Untold(reaches_in=1), {}, LookupError, "The info of sub-env 0 has no 'l_x'"),
    ],
)
def test_what_cannot_be_counted_is_refused(make: Any, options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        found(lambda x: x - 0.25, make(), **options)


def test_a_normaliser_of_ones_own_stands_still_inside_freeze() -> None:
    with vec_of(2) as inside:
        vec = VecNormalizeObservation(inside)
        vec.reset(seed=0)
        with vec.freeze():
            assert found(lambda x: np.ones_like(x), vec, risk=0.5).threshold == 0.0
        with pytest.raises(ValueError, match=r"statistics of VecNormalizeObservation may be moving.*vec\.freeze\(\)"):
            found(lambda x: np.ones_like(x), vec, risk=0.5)


def test_a_model_that_was_trained_behind_a_normaliser_is_certified_behind_one_of_the_same_statistics() -> None:
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.vec_env import VecNormalize

    from sekai.safety.learners import SafetyPPO

    few: dict[str, Any] = {"n_steps": 8, "batch_size": 16, "n_epochs": 1, "seed": 0, "device": "cpu"}
    first, second = (VecNormalizeObservation(vec_of(2)) for _ in range(2))
    learner = SafetyPPO("MlpPolicy", first, **few).learn(32)
    assert learner.trained_behind == "VecNormalizeObservation"
    with pytest.raises(ValueError, match=r"was trained behind a VecNormalizeObservation, .*load_state_dict"):
        certify(learner, vec_of(2), plan=FEW)
    second.load_state_dict(first.state_dict())
    plan = Plan(rollouts=20, steps=3)
    with second.freeze():
        certify(learner, second, risk=0.5, plan=plan)
    assert SafetyPPO("MlpPolicy", vec_of(2), **few).trained_behind is None
    theirs = VecNormalize(to_sb3(vec_of(2)), norm_reward=False)
    assert SafetyPPO("MlpPolicy", theirs, **few).trained_behind == "VecNormalize"
    inside = SafetyPPO("MlpPolicy", vec_of(2), normalize_observations=True, **few).learn(32)
    certify(inside, vec_of(2), risk=0.5, plan=plan)
    with pytest.raises(TypeError, match=r"a vector environment of gymnasium; expected one of sekai"):
        SafetyPPO("MlpPolicy", gymnasium.vector.SyncVectorEnv([Fates]), **few)


def test_a_frozen_normaliser_is_part_of_the_environment() -> None:
    env = gymnasium.wrappers.NormalizeObservation(Fates())
    env.update_running_mean = False
    assert found(lambda x: x - 0.25, env).threshold is not None


def test_a_value_that_is_not_finite_is_refused_with_its_slot() -> None:
    with vec_of(2) as vec, pytest.raises(ValueError, match=r"first observation of sub-env \d is nan "):
        found(lambda x: np.where(x > 0.9, np.nan, x), vec)


@pytest.mark.parametrize("lowest", [np.nan, np.inf, -np.inf])
def test_a_lowest_threshold_that_is_no_number_is_refused(lowest: float) -> None:
    with pytest.raises(ValueError, match=rf"lowest is {lowest}; expected a finite value"):
        Plan(lowest=lowest)


def test_a_learner_without_a_value_is_refused() -> None:
    with (
        vec_of(2) as vec,
        pytest.raises(TypeError, match=r"expected one of .*learners, or anything with predict and pred"),
    ):
        certify(object(), vec, plan=FEW)  # type: ignore[arg-type]


def test_values_of_another_shape_are_refused() -> None:
    class Columns(Reader):
        def predict_value(self, observations: Any) -> Any:
            return np.asarray(observations)

    with (
        vec_of(3) as vec,
        pytest.raises(ValueError, match=r"values of shape \(3, 1\) for 3 observations; expected \(3,\)"),
    ):
        certify(Columns(), vec, plan=FEW)


def test_an_environment_of_gymnasium_with_margins() -> None:
    env = MarginWrapper(gymnasium.make("Pendulum-v1"), g=lambda state: 1.0 - abs(state.env.state[1]) / 4.0)

    class Limp(Reader):
        def __init__(self) -> None:
            pass

        def predict_value(self, observations: Any) -> Any:
            # energy that it cannot spend: hanging it falls no further, and at 4 rad/s it has failed
            cos, speed = np.asarray(observations, np.float64)[:, 0], np.asarray(observations, np.float64)[:, 2]
            return (16.0 - (speed**2 + 30.0 * (cos + 1.0))) / 16.0

    plan = Plan(rollouts=60, steps=100)
    certificate = certify(Limp(), env, risk=0.05, plan=plan)
    assert certificate.threshold is not None and 0.0 <= certificate.threshold < 0.3
