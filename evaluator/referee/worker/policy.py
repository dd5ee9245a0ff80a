"""Numbers of the referee's dealings with a worker process."""

from __future__ import annotations

from typing import Final

START_S: Final = 120.0
"""Seconds to import torch, open a device or map memory: ten times what a busy machine takes."""
LAY_OUT_S: Final = 60.0
"""Seconds to make the views of a layout."""
TAKE_BACK_S: Final = 60.0
"""Seconds to overwrite the outputs of a run, or to drop them."""
QUEUE_S: Final = 0.1
"""Seconds a process may take to queue a batch behind its gate, before the gate opens anyway."""
QUEUE_S_A_CALL: Final = 2e-4
"""Seconds on top for each call of the batch."""
QUEUE_PATIENCE: Final = {"baseline": 2.0}
"""Factor on both by role: were the reference not done with queueing, launching would be in its time and not
in the candidate's."""

FREEZE_S: Final = 1.0
"""Seconds for all tasks of a process to stop, before the driver is asked, who waits longer and knows why."""
FIRST_LOOK_S: Final = 5e-5
"""Seconds until the first look at whether they have stopped; each further one waits twice as long."""
LONGEST_LOOK_S: Final = 0.01
"""Seconds between two looks at most."""

# Outputs that are overwritten by their caller.
OVERWRITTEN_PLACES: Final = 64
"""Secret elements of a run's outputs that are looked at, and as many of its last call's."""
NOISE_BYTES: Final = (1 << 20) + 8 * 513
"""Bytes after which the noise repeats: pages that lie any multiple of a page apart, below 512 MiB, get other
noise."""
POISON_BYTE: Final = 0xFF
"""Filled into slots before outputs are read back."""
KEEP_CHANCE: Final = 0.25
"""Chance that a call's outputs are kept after each run."""
KEPT_BYTES: Final = 1 << 30
"""Memory of all kept outputs above which only the first call's are kept."""

QUIET_S: Final = 0.01
"""Seconds without another process's work on a GPU after which it counts as quiet: a process has it for about
2 ms at a time while several want it."""
FIRST_QUIET_WAIT_S: Final = 0.25
"""Seconds to wait for that at first: kernels of stopped processes mostly end within milliseconds."""
QUIET_WAIT_S: Final = 2.0
"""Seconds to wait for that afterwards, once no call is under a tool: it would last ten times as long."""
QUIET_PAUSE_S: Final = 1.0
"""Seconds for which others go on where it does not fall quiet, or where they hold memory that is needed."""
QUIET_ATTEMPTS: Final = 10
"""Times that it is tried: a call that hangs is ended by its own time limit meanwhile."""
