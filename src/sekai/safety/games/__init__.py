"""Games of a controller and a disturbance: how an action divides, and who plays whom."""

from sekai.safety.games.joint import joined
from sekai.safety.games.league import League, Match, matches
from sekai.safety.games.players import Players, ctrl_action_dim_of

__all__ = ["League", "Match", "Players", "ctrl_action_dim_of", "joined", "matches"]
