"""A mixed soak of `ProcVecEnv`: `python benchmarks/soak.py --minutes M --seed S`.

One vector environment after another, of random size, transport and autoreset mode, gets random calls: steps, resets of
some slots with options, seeds of every form, attributes. Workers are killed, stopped, and end in a step; environments
raise; calls are interrupted at random moments, also while a worker is being replaced. Every row is compared with those
of `SyncVecEnv`s that get the same calls, see `soak_reference`. In the end nothing may be left: no process, no
descriptor, no shared memory. The first thing that is wrong ends the soak with what had been done and the seed.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter, deque
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from soak_reference import BOOM, DIE, Call, Coded, Mismatch, Options, Share, reference

import sekai
from sekai.core.slots import Phase
from sekai.seeding import slot_seeds
from sekai.vector.shares import share_bounds

MODES = ("same_step", "next_step", "disabled")
ENDINGS = ("terminated", "truncated", "both")
PREFIX = f"/soak{os.getpid()}"  # of the names of semaphores: other programs make some, too
WIDE = 4096  # numbers in a large observation: two slots of them are handed out as they stand in shared memory
HANGS = 60.0  # seconds after which a soak that should have ended says where it is
PATIENCE = 10.0  # seconds within which what should end has ended


class Over(Exception):
    """This vector environment is of no more use."""


def interrupt(*_: Any) -> None:
    """What Ctrl-C does."""
    raise KeyboardInterrupt


def status(pid: int) -> str:
    """State of a process in one letter, "" where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def wait_for(pids: Any, states: str) -> None:
    """Wait until each of the processes is in one of the states, or gone."""
    deadline = time.monotonic() + PATIENCE
    while left := [pid for pid in pids if status(pid) not in ("", *states)]:
        if time.monotonic() > deadline:
            raise Mismatch(f"processes {left} should have ended: {list(map(status, left))}")
        time.sleep(0.001)


def resources() -> dict[str, Any]:
    """What this process holds."""
    gc.collect()
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "children": len(multiprocessing.active_children()),
        "mappings": Path("/proc/self/maps").read_text(encoding="utf-8").count("memfd:sekai"),
        "names": names_in_shared_memory(),
        "threads": threading.active_count(),
    }


def names_in_shared_memory() -> list[str]:
    """Semaphores of this process."""
    return [path.name for path in Path("/dev/shm").glob(f"sem{PREFIX.replace('/', '.')}-*")]


class Bout:
    """One vector environment, from building to closing.

    Args:
        rng: draws everything.
        counts: of what was done.
    """

    def __init__(self, rng: np.random.Generator, counts: Counter[str]) -> None:
        self.rng, self.counts = rng, counts
        self.n = int(rng.integers(1, 9))
        workers = int(rng.integers(1, min(self.n, 3) + 1))
        self.mode = str(rng.choice(MODES))
        self.restarts = bool(rng.random() < 0.8)
        width = WIDE if rng.random() < 0.25 else 4
        self.factories = [
            partial(Coded, slot, int(rng.integers(2, 12)), str(rng.choice(ENDINGS)), width) for slot in range(self.n)
        ]
        self.asked = [0] * self.n
        asks = self.mode != "disabled" and rng.random() < 0.4
        self.options = self._asked_options if asks else None
        self.vec = sekai.ProcVecEnv(
            self.factories,
            autoreset=self.mode,
            autoreset_options=self.options,
            num_workers=workers,
            shared_memory=bool(rng.random() < 0.6),
            step_timeout=0.5,
            close_timeout=2.0,
            on_worker_loss="restart" if self.restarts else "raise",
        )
        self.shares = [Share(lo, hi, self._reference(lo, hi)) for lo, hi in share_bounds(self.n, workers)]
        self.pids = self.vec.call("where")
        self.all_pids = set(self.pids)
        self.held: deque[tuple[Any, Any]] = deque()
        self.latest: Any = None
        counts["built"] += 1
        counts[f"{self.mode}, {'shared' if self.vec.shared_memory else 'pickled'}"] += 1

    def _asked_options(self, slot: int, episode: int) -> Options:
        self.asked[slot] = max(self.asked[slot], episode)
        return _options_of(slot, episode)

    def _reference(self, lo: int, hi: int, states: Any = None) -> Any:
        """What a worker is compared with, from scratch or from the states of its environments on."""
        offsets = [0 if states is None else self.asked[slot] - 1 for slot in range(lo, hi)]
        options = None
        if self.options is not None:
            options = lambda slot, episode: _options_of(lo + slot, episode + offsets[slot])  # noqa: E731
        vec = reference(self.factories[lo:hi], self.mode, options)
        if states is not None:
            vec.reset(options=[{"state": state} for state in states])
        return vec

    # ---- calls ---------------------------------------------------------------------------------

    def random_step(self, *bad: int) -> Call:
        """A step; some slots get one of the bad actions."""
        actions = self.rng.integers(0, 5, size=self.n)
        if bad:
            chosen = self.rng.random(self.n) < 0.4
            actions = np.where(chosen, self.rng.choice(bad, size=self.n), actions)
        return Call(actions)

    def first_reset(self) -> Call:
        """Every slot gets a stream."""
        call = self.random_reset()
        seeds = slot_seeds(int(self.rng.integers(10**6)), self.n)
        return call._replace(seeds=seeds, mask=np.ones(self.n, bool))

    def random_reset(self, fails: bool = False) -> Call:
        """A reset of random slots, among them those that need one."""
        share = float(self.rng.choice([0.2, 0.6, 1.0]))
        chosen = (self.rng.random(self.n) < share) | (self.vec.phase == Phase.NEW)
        seeds: Any = int(self.rng.integers(10**6)) if self.rng.random() < 0.5 else None
        if self.rng.random() < 0.3:
            seeds = [int(seed) if seed % 3 else None for seed in self.rng.integers(10**6, size=self.n)]
        options: list[Options] = [{"at": int(at)} if at < 2 else None for at in self.rng.integers(0, 4, size=self.n)]
        if fails:
            options[int(self.rng.integers(self.n))] = {"fail": True}
        return Call(None, slot_seeds(seeds, self.n), options, chosen)

    def attempt(self, call: Call, delay: float | None = None) -> bool:
        """Make a call, interrupted after a delay; whether a result was returned, and all of it was right."""
        outcome = None
        try:
            if delay is not None:
                signal.setitimer(signal.ITIMER_REAL, delay)
            outcome = call.on(self.vec)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            self.counts["interrupted"] += outcome is None
        return self.settle(call, outcome)

    def settle(self, call: Call, outcome: Any) -> bool:
        """Hold an outcome against the reference."""
        self.counts["steps" if call.mask is None else "resets"] += 1
        if outcome is None or (isinstance(outcome, sekai.VecEnvWorkerError) and outcome.exc_type == "TimeoutError"):
            self.counts["slow by themselves"] += outcome is not None
            self.unseen(call, None)
        elif isinstance(outcome, sekai.ResetRequired):
            self.counts["steps that needed a reset"] += 1
        elif isinstance(outcome, sekai.VecEnvWorkerError):
            self.failed(call, outcome)
        elif isinstance(outcome, Exception):
            raise Mismatch(f"unexpected {outcome!r}") from outcome
        else:
            self.returned(call, outcome)
            return True
        return False

    def unseen(self, call: Call, executed: bool | None) -> None:
        """Nobody saw the result of a call."""
        lost = self.vec.lost_rows
        for share in self.shares:
            share.disturbed = True
            if not share.dying:
                share.unseen(call, lost, executed=executed)

    def failed(self, call: Call, error: sekai.VecEnvWorkerError) -> None:
        """A call has raised an error of an environment, or of a dead worker."""
        if error.exc_type == "EOFError":
            (share,) = [share for share in self.shares if share.dying] or [None]
            if self.restarts or share is None or error.rank != share.lo or error.exitcode not in (-9, 3):
                raise Mismatch(f"unexpected {error}") from error
            self.counts["losses raised"] += 1
            raise Over
        self.counts["errors of environments"] += 1
        for share in self.shares:
            share.disturbed = True
            if not share.dying:
                share.raised(call, error.rank, str(error).partition("\n")[0])

    def returned(self, call: Call, result: Any) -> None:
        """A call has returned rows."""
        told = []
        for share in self.shares:
            if not share.dying:
                share.returned(call, result)
            elif share.told(call, result):
                told.append(share)
            else:
                raise Mismatch(f"slots {share.lo} to {share.hi - 1}: the worker is dead, and nobody was told")
        self.counts["rows compared"] += self.n
        self.counts["rows of kind LOST"] += int((getattr(result, "kind", np.zeros(1)) == sekai.RowKind.LOST).sum())
        self.latest = result
        self.hold(result.observations)
        for share in told:
            self.adopt(share)

    def adopt(self, share: Share) -> None:
        """Compare with what a new worker says that it is."""
        dones = np.zeros(self.n, bool)
        dones[share.rows] = True
        if self.mode != "same_step" and (self.latest.dones & dones).any():
            self.ask(lambda: self.vec.reset(mask=dones))
        states = self.ask(lambda: self.vec.call("state"))
        vec = self._reference(share.lo, share.hi, states[share.rows])
        vec.lose_rows(self.vec.lost_rows[share.rows])
        share.possible, share.dying = [vec], False
        self.pids = self.ask(lambda: self.vec.call("where"))
        self.all_pids |= set(self.pids)
        self.counts["losses told"] += 1
        self.attempt(self.random_step())  # an answer between two losses: three in a row are given up

    def ask(self, question: Any) -> Any:
        """The answer to a question, whatever time it takes."""
        for _ in range(20):
            try:
                return question()
            except sekai.VecEnvWorkerError as error:
                if error.exc_type != "TimeoutError":
                    raise
        raise Mismatch("no answer for ten seconds")

    def hold(self, observations: Any) -> None:
        """Keep observations for some time: they must not change."""
        if self.rng.random() < 0.3:
            self.held.append((observations, observations.copy()))
        while len(self.held) > 5 or (self.held and self.rng.random() < 0.1):
            given, copied = self.held.popleft()
            if not np.array_equal(given, copied):
                raise Mismatch("observations that had been handed out have changed")

    # ---- what happens to it --------------------------------------------------------------------

    @property
    def dying(self) -> bool:
        """Whether some worker has been killed, and that has not been told."""
        return any(share.dying for share in self.shares)

    def run(self, deadline: float) -> None:
        """Make random calls, some with a fault, then close."""
        kinds = [self.steps] * 4 + [self.reset, self.boom, self.refused, self.attributes, self.interrupted]
        kinds += [self.interrupted, self.killed, self.killed_in_a_step, self.dies, self.stopped]
        try:
            self.attempt(self.first_reset())
            for _ in range(int(self.rng.geometric(0.02))):
                if time.monotonic() > deadline:
                    break
                if (self.vec.phase == Phase.NEW).any():
                    self.reset()
                kinds[int(self.rng.integers(len(kinds)))]()
        except Over:
            pass
        self.close()

    def steps(self) -> None:
        """A run of ordinary steps."""
        for _ in range(int(self.rng.integers(1, 30))):
            if not self.attempt(self.random_step()):
                break

    def reset(self) -> None:
        """A reset of some slots, which may fail."""
        self.attempt(self.random_reset(fails=self.rng.random() < 0.2))

    def boom(self) -> None:
        """Environments raise in a step."""
        self.attempt(self.random_step(BOOM))

    def refused(self) -> None:
        """What is refused moves nothing."""
        if self.dying:
            return
        bad = Call(None, [None] * self.n, [{"at": 10**6}] * self.n, np.ones(self.n, bool))
        for call in (bad, Call(np.zeros(self.n + 1, int)), Call([object()] * self.n)):
            outcome = call.on(self.vec)
            if not isinstance(outcome, Exception):
                raise Mismatch(f"{call} was not refused")
        self.counts["refused"] += 3

    def attributes(self) -> None:
        """New lengths of episodes; a new worker has them, too."""
        if self.dying or not self.attempt(self.random_step()) or self.dying:
            return
        lengths = self.rng.integers(2, 12, size=self.n).tolist()
        self.ask(lambda: self.vec.set_attr("length", lengths))
        for share in self.shares:
            for vec in share.possible:
                vec.set_attr("length", lengths[share.rows])
        self.counts["attributes set"] += 1

    def interrupted(self) -> None:
        """Ctrl-C at a random moment; while a worker is replaced, that takes longer."""
        for _ in range(int(self.rng.integers(1, 6))):
            longest = 0.3 if self.dying else 3e-3
            delay = float(self.rng.uniform(1e-5, longest))
            step = self.rng.random() < 0.7 and not (self.vec.phase == Phase.NEW).any()
            self.attempt(self.random_step() if step else self.random_reset(), delay)

    def victim(self) -> Share:
        """A worker."""
        return self.shares[int(self.rng.integers(len(self.shares)))]

    def killed(self) -> None:
        """A worker is killed between two calls."""
        if self.dying:
            return
        share = self.victim()
        self.end(share, disturbed=False)

    def end(self, share: Share, *, disturbed: bool) -> None:
        """Kill a worker."""
        pid = self.pids[share.lo]
        os.kill(pid, signal.SIGKILL)
        wait_for([pid], "ZX")
        share.dying, share.disturbed = True, disturbed
        self.counts["killed"] += 1

    def killed_in_a_step(self) -> None:
        """A worker is killed at a random moment."""
        if self.dying or not self.attempt(self.random_step()) or self.dying:
            return
        share = self.victim()
        pid, call = self.pids[share.lo], self.random_step()
        timer = threading.Timer(float(self.rng.uniform(0, 1e-3)), os.kill, (pid, signal.SIGKILL))
        timer.start()
        outcome = call.on(self.vec)
        timer.join()
        wait_for([pid], "ZX")
        self.counts["killed in a step"] += 1
        seen = not isinstance(outcome, Exception)
        if seen and not outcome.infos[share.lo].get("worker_lost"):  # it had answered
            self.settle(call, outcome)
            share.dying, share.disturbed = True, False
            return
        share.dying, share.disturbed = True, not seen
        self.settle(call, outcome)

    def dies(self) -> None:
        """A worker ends in a step."""
        if self.dying or not self.attempt(self.random_step()) or self.dying or (self.vec.phase == Phase.NEW).any():
            return
        live = np.flatnonzero(self.vec.phase == Phase.LIVE)
        if len(live):
            call = self.random_step()
            slot = int(self.rng.choice(live))
            call.actions[slot] = DIE
            share = next(share for share in self.shares if slot < share.hi)
            share.dying, share.disturbed = True, False
            self.counts["ended in a step"] += 1
            self.attempt(call)

    def stopped(self) -> None:
        """A worker is stopped, so that a call takes too long; then it goes on, or is killed, or all is closed."""
        if self.rng.random() < 0.5 or self.dying or not self.attempt(self.random_step()) or self.dying:
            return
        share = self.victim()
        pid = self.pids[share.lo]
        os.kill(pid, signal.SIGSTOP)
        wait_for([pid], "T")
        call = self.random_step() if self.rng.random() < 0.7 else self.random_reset()
        self.times_out(call, share)
        self.unseen(call, call.mask is None)  # the options of a reset are looked at first, and did not get far
        if self.rng.random() < 0.3:
            self.times_out(self.random_step(), share)  # the first is still under way: nothing of this one is sent
        fate = self.rng.random()
        if fate < 0.2:
            raise Over
        if fate < 0.5 and self.restarts:
            self.end(share, disturbed=True)
        else:
            os.kill(pid, signal.SIGCONT)

    def times_out(self, call: Call, share: Share) -> None:
        """A call to a stopped worker."""
        outcome = call.on(self.vec)
        slow = isinstance(outcome, sekai.VecEnvWorkerError) and outcome.exc_type == "TimeoutError"
        if not slow and not isinstance(outcome, sekai.ResetRequired):
            raise Mismatch(f"worker {share.lo} is stopped, and a call ended with {outcome!r}")
        self.counts["timed out"] += 1

    def close(self) -> None:
        """Close it; all processes end."""
        started = time.monotonic()
        self.vec.close()
        taken = time.monotonic() - started
        if taken > PATIENCE:
            raise Mismatch(f"closing took {taken:.1f} s")
        wait_for(self.all_pids, "X")
        if not isinstance(self.random_step().on(self.vec), sekai.VecEnvClosed):
            raise Mismatch("a step after close")
        self.counts["closed"] += 1


def _options_of(slot: int, episode: int) -> Options:
    """The options of an episode that begins by itself."""
    return None if (slot + episode) % 4 == 3 else {"at": (slot + episode) % 2}


def soak(seconds: float, seed: int, counts: Counter[str]) -> None:
    """One vector environment after another."""
    deadline = time.monotonic() + seconds
    multiprocessing.current_process()._config["semprefix"] = PREFIX  # type: ignore[attr-defined]  # no public name
    before = None
    while time.monotonic() < deadline:
        number = counts["built"]
        Bout(np.random.default_rng((seed, number)), counts).run(deadline)
        after = resources()
        if before is None:  # the fork server and the tracker of resources stay
            before = after
        if after != before:
            raise Mismatch(f"left after closing: {after}, expected {before}")


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    multiprocessing.set_forkserver_preload(["sekai"])
    faulthandler.dump_traceback_later(60 * given.minutes + HANGS, exit=True)
    signal.signal(signal.SIGALRM, interrupt)
    counts: Counter[str] = Counter()
    try:
        soak(60 * given.minutes, given.seed, counts)
    except BaseException:
        print(f"failed: --seed {given.seed}, after {dict(counts)}", file=sys.stderr)
        raise
    for name, count in sorted(counts.items()):
        print(f"{count:12,}  {name}")
    print(f"nothing wrong, nothing left, in {given.minutes:g} minutes with seed {given.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
