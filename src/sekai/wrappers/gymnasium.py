"""`FromGymnasium`: a gymnasium environment as a sekai environment."""

from __future__ import annotations

from sekai.core.wrapper import Wrapper


class FromGymnasium(Wrapper):
    """Make any gymnasium environment answer like sekai's: named results, Python bools, readable spaces.

    Every sekai wrapper does the same to the environment it wraps, so this one is needed only where there is no
    other, for instance `sekai.make` of a gymnasium id without a time limit.
    """
