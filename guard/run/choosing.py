"""What a run chooses to do about a violation, and about a procedure that fails behind a decision."""

from __future__ import annotations

from dataclasses import dataclass, replace

from guard.run import policy as retry
from guard.run.generation import Generation
from guard.run.ladders import GENERATING, Action
from guard.run.opener import Opener
from guard.run.policy import Choice
from guard.run.votes import Polls


@dataclass(frozen=True, slots=True, kw_only=True)
class Choosing:
    """Asks the policy of one run, with all that the policy has to know."""

    opener: Opener
    polls: Polls

    def decide(self, generation: Generation | None, here: str = "") -> Choice:
        """Ask the policy, `generation` being still to be closed; `here` says why not on this upstream."""
        accounts = self.opener.accounts
        left = accounts.left - (generation.cost.completion if generation is not None else 0)
        barred = f"all {accounts.limit} tokens are spent" if left <= 0 else ""
        return retry.decide(
            self.opener.policy,
            self.opener.history.attempts,
            upstreams=self.opener.forcing.targets,
            barred=barred,
            here=here,
        )

    def blame_decision(self, generation: Generation | None) -> Choice | None:
        """Choose how to ask again for the last decision, and go back to it; None: there is none."""
        progress = self.opener.progress
        last = progress.last_decided()
        if last is None:
            return None
        self.opener.history.blame(
            self.opener.progress.lines[last].step, delivered=self.opener.progress.delivered > 0
        )
        choice = self.decide(generation)
        if choice.action is Action.RESTART:
            self.restart()
        elif choice.action in GENERATING:
            struck = self.polls.strike(progress.lines[last])
            if struck is not None:
                return replace(choice, action=Action.REJECT, reason=struck)
            self.opener.give_up()  # what was asked for ahead may have followed from it
            progress.rewind(last)
        return choice

    def restart(self) -> None:
        """Begin anew: nothing stands any more."""
        self.opener.give_up()
        self.opener.progress.restart()
        self.polls.forget()
