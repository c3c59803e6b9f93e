"""PPO with an LSTM, on a task that only memory solves.

    .venv/bin/python examples/recurrent_ppo.py --mode same_step
    .venv/bin/python examples/recurrent_ppo.py --mode next_step --seconds 60 --target 0.8

It needs torch (`pip install '.[safety]'`) and two cores. The task is `sekai.testing.MemoryCorridor`: a light is on or
off at the start, and has to be named at junctions far from it. Half the answers are right without memory.

What is easy to get wrong, and where it is done here:

- the memory of a slot begins anew with its episode, and no other slot's does: `Collector` (`LSTMPolicy.initial_state`);
- a truncated episode is worth what its final observation promises to one who remembers that episode, and not the next:
  `Fragment.next_values` (`LSTMPolicy.value`);
- its value counts, and yet no return runs on into the next episode: `Fragment.bootstrap` and `Fragment.trace`
  (`advantages_of`);
- backpropagation through time stays within one episode, and starts from the memory that the rows were collected with:
  `Fragment.sequences` (`learn`).

Shapes: `T` rows, `N` slots, `B` sequences of `L` rows, `H` units.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from torch import Tensor, nn
from torch.nn.functional import huber_loss

import sekai
from sekai.collect import Collector, Decision, Fragment, Sequences, evaluate, gae
from sekai.testing import MemoryCorridor

State = tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What training depends on."""

    length: tuple[int, int] = (10, 20)
    """Fewest and most steps from the light to a junction, and to the next."""
    refund: float = 4.0
    """Of `MemoryCorridor`: punishes a learner whose returns run on into the next episode. Evaluation has none."""
    num_envs: int = 64
    """Slots, `N`."""
    fragment_length: int = 64
    """Rows of a fragment, `T`."""
    hidden: int = 32
    """Units of the LSTM, `H`."""
    gamma: float = 0.95
    """Discount of a step."""
    lambda_: float = 0.95
    """Weight of the longer advantage estimates."""
    learning_rate: float = 3e-3
    """Of Adam."""
    epochs: int = 4
    """Passes over a fragment."""
    minibatches: int = 4
    """Steps of the optimiser in a pass."""
    clip: float = 0.2
    """Of the ratio of probabilities."""
    entropy: float = 0.01
    """Weight of the entropy bonus."""
    evaluate_every: int = 10
    """Fragments between evaluations."""
    episodes: int = 256
    """Of an evaluation under way; the last one has four times as many."""


class LSTMPolicy(nn.Module):
    """An LSTM with two heads, as the policy that `Collector` and `evaluate` ask.

    Args:
        hidden: units, `H`.
        greedy: take the likeliest action, and draw none.
    """

    def __init__(self, hidden: int, greedy: bool = False) -> None:
        super().__init__()
        self.hidden, self.greedy = hidden, greedy
        self.lstm = nn.LSTM(2, hidden, batch_first=True)
        self.actor, self.critic = nn.Linear(hidden, 2), nn.Linear(hidden, 1)

    def forward(self, observations: Tensor, state: State) -> tuple[Tensor, Tensor, State]:
        """Logits `(B, L, 2)`, values `(B, L)` and the state after the last row, from the state before the first."""
        out, (h, c) = self.lstm(observations, (state[0][None], state[1][None]))
        return self.actor(out), self.critic(out)[..., 0], (h[0], c[0])

    def initial_state(self, num_slots: int) -> State:
        """The memory in which episodes begin, two tensors `(N, H)`."""
        return torch.zeros(num_slots, self.hidden), torch.zeros(num_slots, self.hidden)

    @torch.no_grad()
    def act(self, observations: NDArray[np.float32], state: State, episode_start: NDArray[np.bool_]) -> Decision:
        """Actions of all slots; their log probabilities and the values are kept with the rows."""
        logits, values, state = self(torch.from_numpy(observations)[:, None], state)
        log_probs = logits[:, 0].log_softmax(-1)
        actions = log_probs.argmax(-1) if self.greedy else log_probs.exp().multinomial(1)[:, 0]
        chosen = log_probs.gather(-1, actions[:, None])[:, 0]
        return Decision(actions.numpy(), state, {"log_prob": chosen.numpy(), "value": values[:, 0].numpy()})

    @torch.no_grad()
    def value(self, observations: NDArray[np.float32], state: State) -> NDArray[np.float32]:
        """Values of observations that are not acted on: final ones, and those after the last row."""
        values: NDArray[np.float32] = self(torch.from_numpy(observations)[:, None], state)[1][:, 0].numpy()
        return values


def make_envs(settings: Settings, mode: str, *, refund: float) -> sekai.VecEnv:
    """`N` corridors."""
    return sekai.SyncVecEnv(
        [lambda: MemoryCorridor(settings.length, refund=refund) for _ in range(settings.num_envs)], autoreset=mode
    )


def advantages_of(fragment: Fragment, settings: Settings) -> NDArray[Any]:
    """Advantages `(T, N)`; NaN in rows that are no transition."""
    return gae(
        fragment.rewards,
        fragment.values,
        fragment.next_values,
        bootstrap=fragment.bootstrap,
        trace=fragment.trace,
        valid=fragment.valid,
        gamma=settings.gamma,
        lambda_=settings.lambda_,
    )


def learn(policy: LSTMPolicy, optimizer: torch.optim.Optimizer, fragment: Fragment, settings: Settings) -> None:
    """Some epochs of PPO on the transitions of a fragment, as sequences of one episode each."""
    advantages = advantages_of(fragment, settings)
    valid = advantages[fragment.valid]
    columns = {
        "advantage": (advantages - valid.mean()) / (valid.std() + 1e-8),
        "target": advantages + fragment.values,
    }
    batch = to_tensors(fragment.sequences(columns=columns))
    for _ in range(settings.epochs):
        for chosen in torch.randperm(len(batch["mask"])).chunk(settings.minibatches):
            loss = loss_of(policy, {name: column[chosen] for name, column in batch.items()}, settings)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()


def to_tensors(sequences: Sequences) -> dict[str, Tensor]:
    """What the loss needs, `(B, L, ...)`, and the memory that each sequence starts from, `(B, H)`."""
    h, c = sequences.state
    columns = {
        "observations": sequences.observations,
        "actions": sequences.actions,
        "mask": sequences.mask,
        "log_prob": sequences.extras["log_prob"],
        "advantage": sequences.columns["advantage"].astype(np.float32),
        "target": sequences.columns["target"].astype(np.float32),
    }
    return {"h": h, "c": c, **{name: torch.from_numpy(column) for name, column in columns.items()}}


def loss_of(policy: LSTMPolicy, batch: dict[str, Tensor], settings: Settings) -> Tensor:
    """The clipped objective, the error of the values and the entropy, over rows that are transitions."""
    mask = batch["mask"]
    logits, values, _ = policy(batch["observations"], (batch["h"], batch["c"]))
    log_probs = logits[mask].log_softmax(-1)
    chosen = log_probs.gather(-1, batch["actions"][mask][:, None])[:, 0]
    ratio = (chosen - batch["log_prob"][mask]).exp()
    advantage = batch["advantage"][mask]
    clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
    gain = torch.minimum(ratio * advantage, clipped * advantage).mean()
    error = huber_loss(values[mask], batch["target"][mask])
    entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
    return error - gain - settings.entropy * entropy


def success_rate(policy: LSTMPolicy, settings: Settings, mode: str, episodes: int, seed: int) -> float:
    """The share of right answers of the greedy policy, in fresh episodes without refunds."""
    greedy = copy(policy)  # the same weights
    greedy.greedy = True
    with make_envs(settings, mode, refund=0.0) as vec:
        played = evaluate(greedy, vec, episodes, seed=seed)
    answers = np.where(played.terminated, 2, 1)  # an episode ends with its second answer, or is cut after the first
    return float(played.returns.sum() / answers.sum())


def train(
    policy: LSTMPolicy, settings: Settings, *, mode: str, target: float, seconds: float, seed: int
) -> Iterator[tuple[float, float, int]]:
    """Train until the target is reached or time is up; yields the seconds spent, the success rate, and transitions.

    An evaluation under way has to be better than the target by half of what is left, so that the last one agrees.
    """
    optimizer = torch.optim.Adam(policy.parameters(), lr=settings.learning_rate)
    begun, enough = perf_counter(), (1 + target) / 2
    with make_envs(settings, mode, refund=settings.refund) as vec:
        collector = Collector(vec, policy, fragment_length=settings.fragment_length, values=True)
        collector.reset(seed=seed)
        rate = 0.0
        while rate < enough and perf_counter() - begun < seconds:
            learn(policy, optimizer, collector.collect(), settings)
            counters = collector.counters
            if counters.fragments % settings.evaluate_every == 0:
                rate = success_rate(policy, settings, mode, settings.episodes, seed + counters.fragments)
            yield perf_counter() - begun, rate, counters.valid


def run(policy: LSTMPolicy, settings: Settings, *, mode: str, target: float, seconds: float, seed: int) -> float:
    """Train behind a progress bar; the success rate in the end."""
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns) as progress:
        task = progress.add_task("collecting", total=seconds)
        for spent, rate, transitions in train(policy, settings, mode=mode, target=target, seconds=seconds, seed=seed):
            text = f"{transitions / 1000:,.0f}k steps, {rate:.0%} right"
            progress.update(task, completed=min(spent, seconds), description=text)
    return success_rate(policy, settings, mode, 4 * settings.episodes, seed=seed + 1_000_000)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0 where the target was reached."""
    parser = argparse.ArgumentParser(description="PPO with an LSTM on sekai.testing.MemoryCorridor.")
    parser.add_argument("--mode", choices=["same_step", "next_step"], default="same_step", help="autoreset mode")
    parser.add_argument("--seconds", type=float, default=300.0, help="time limit of training")
    parser.add_argument("--target", type=float, default=0.95, help="share of right answers at which training stops")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)  # the network is so small that a second thread only gets in the way
    torch.manual_seed(given.seed)
    settings = Settings()
    rate = run(LSTMPolicy(settings.hidden), settings, **vars(given))
    print(f"{given.mode}, seed {given.seed}: {rate:.1%} of answers right (target {given.target:.0%})")
    return 0 if rate >= given.target else 1


if __name__ == "__main__":
    sys.exit(main())
