"""Makes gymnasium's own vector functions treat our spaces as they treat gymnasium's.

gymnasium iterates a batched `Tuple` by looking up the exact class of each part, so a subclass has to be
registered; without that it would walk over the parts instead of the sub-environments.
"""

from __future__ import annotations

import gymnasium.vector.utils as utils

from sekai.spaces.batch import batch_space
from sekai.spaces.box import Box
from sekai.spaces.composite import Dict, Tuple
from sekai.spaces.discrete import Discrete, MultiBinary, MultiDiscrete
from sekai.spaces.masked_box import MaskedBox

for _ours in (Box, Discrete, MultiDiscrete, MultiBinary, Dict, Tuple, MaskedBox):
    utils.iterate.register(_ours, utils.iterate.dispatch(_ours))

utils.batch_space.register(MaskedBox, batch_space)
