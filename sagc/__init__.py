"""Straggler-aware group control for reinforcement learning of language models.

Importing this package needs NumPy only. A controller says how many responses to sample per prompt and learns from the
lengths of each rollout:

>>> from sagc import SAGC
>>> controller = SAGC(ladder=(4, 8, 16), start=4, delta=0.5)
>>> report = controller.step([[12, 15, 14, 60], [9, 9, 11, 10]])
>>> report.straggler_rate
0.5
"""

from sagc.controllers.protocol import GroupSizeController
from sagc.controllers.robust import RobustSAGC
from sagc.controllers.sagc import SAGC
from sagc.controllers.static import StaticGroupSize
from sagc.lengths import StragglerReport

__version__ = "0.1.0"
__all__ = ["SAGC", "GroupSizeController", "RobustSAGC", "StaticGroupSize", "StragglerReport"]
