"""Time limits of the referee's dealings with a worker process."""

from __future__ import annotations

from typing import Final

START_S: Final = 120.0
"""Seconds to import torch, open a device or map memory: ten times what a busy machine takes."""
LAY_OUT_S: Final = 60.0
"""Seconds to make the views of a layout."""
QUEUE_S: Final = 0.2
"""Seconds a process may take to queue a batch behind its gate, before the gate opens anyway."""
QUEUE_S_A_CALL: Final = 2e-4
"""Seconds on top for each call of the batch."""
QUEUE_PATIENCE: Final = {"baseline": 5.0}
"""Factor on both by role: were the reference not done with queueing, launching would be in its time and not
in the candidate's."""
