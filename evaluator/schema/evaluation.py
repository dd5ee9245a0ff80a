"""The judge's answer: statuses, stages, and every measurement behind a score."""

from __future__ import annotations

from enum import StrEnum

from kernelwright.evaluator.schema.config import EvaluationConfig
from kernelwright.evaluator.schema.kernel_resources import KernelResources
from kernelwright.evaluator.schema.record import Record

SCHEMA_VERSION = 1
"""Raised when a field of `Evaluation` changes meaning."""


class Stage(StrEnum):
    """How far an evaluation got; each is announced before it is entered."""

    SCREEN = "screen"
    OPEN = "open"
    """A referee makes the problem ready: inputs, expected values; skipped where one is warm."""
    BUILD = "build"
    LOAD = "load"
    VERIFY = "verify"
    TIME = "time"
    ATTRIBUTE = "attribute"
    SANITIZE = "sanitize"
    DECIDE = "decide"


class Status(StrEnum):
    """How an evaluation ended. Failures of the machine or of this program are exceptions, not statuses."""

    PASSED = "PASSED"
    NO_CODE = "NO_CODE"
    TRUNCATED = "TRUNCATED"
    REJECTED = "REJECTED"
    COMPILE_ERROR = "COMPILE_ERROR"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    WRONG_SHAPE = "WRONG_SHAPE"
    WRONG_DTYPE = "WRONG_DTYPE"
    WRONG_VALUES = "WRONG_VALUES"
    NONDETERMINISTIC = "NONDETERMINISTIC"
    MEMORY_ERROR = "MEMORY_ERROR"
    RACE = "RACE"
    INPUT_MUTATED = "INPUT_MUTATED"
    TIMED_OUT = "TIMED_OUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    TAMPERED = "TAMPERED"
    IMPLAUSIBLE = "IMPLAUSIBLE"


class Finding(Record):
    """One remark of the screening: advice, unless it is fatal."""

    rule: str
    line: int | None = None
    message: str
    fatal: bool = False


class Build(Record):
    """One extension built for the candidate."""

    name: str
    """Extension name the candidate asked for."""
    key: str
    """Content address of sources, flags, compiler and torch."""
    tier: str
    """Which headers and binding built it: `lean`, `full`; `none` when no compiler was asked."""
    cached: bool
    seconds: float
    """Wall time; 0 for a cache hit."""
    cpu_seconds: float = 0.0
    """Processor time of compilers and linker; 0 for a cache hit."""
    ok: bool
    timed_out: bool = False
    """It failed because its time was up."""
    log: str = ""
    """Compiler output, trimmed; empty when it built."""
    notes: tuple[str, ...] = ()
    """Flags that were dropped, and why."""
    resources: tuple[KernelResources, ...] = ()
    """What its CUDA kernels take, as far as the library says it."""


class Mismatch(Record):
    """How wrong values differ from the expected ones."""

    output: str
    """Path of the tensor inside the output, such as `[0]` or `["logits"]`; empty for a single tensor."""
    trial: str
    """Name of the input distribution that showed it."""
    wrong: int
    total: int
    first_indices: tuple[tuple[int, ...], ...] = ()
    expected: tuple[float, ...] = ()
    actual: tuple[float, ...] = ()
    max_abs_error: float
    error_ratio: float
    """Error as a multiple of the reference's own rounding error (root mean square, worst group)."""
    limit_ratio: float
    pattern: str = ""
    """What the wrong places look like: a band, a tile edge, a transposition, everything."""


class Verification(Record):
    """What was checked and how close the candidate came."""

    trials: int
    """Calls whose outputs were compared."""
    distributions: tuple[str, ...]
    weights: str
    """How the candidate's parameters were made equal to the reference's: `seed`, `state_dict` or `none`."""
    parameters: str
    """The same in a second draw; in one of the two, timed if it can be, none is the constant it starts as."""
    error_ratio: float | None
    """Largest group error over the reference's own, over all right trials."""
    limit_ratio: float
    gradients: tuple[str, ...] = ()
    """Gradients that were verified beside the outputs, such as `gradient of weight`."""
    bitwise_repeatable: bool | None = None
    other_sizes: dict[str, Status] = {}
    """What sizes other than the judged ones would have earned, by their name: of `SHAPES`, or scaled down."""
    shape_specialized: bool | None = None
    """True when one of `other_sizes` did not pass, which is no failure; None when there was none to try."""
    mismatch: Mismatch | None = None


class Interval(Record):
    """A two-sided 95 % interval."""

    low: float
    high: float


class Timing(Record):
    """One side's measured time per call, milliseconds."""

    median_ms: float
    """Median of the turns; on a CPU, whose cores are never ours alone, of the quicker half of them."""
    spread_ms: float
    """Median absolute deviation of the turns."""
    turns: int
    calls: int
    """Calls timed in all."""
    inner_ms: float | None = None
    """The contestant's own claim (events around the calls), median."""
    outer_ms: float
    """The referee's clock around the calls, median; outputs are collected afterwards, without the inputs."""
    single_ms: float | None = None
    """Median outer time of the unannounced single-call batches."""
    launch_ms: float | None = None
    """What the host took to queue a call of a batch, median: no part of any time here. None where calls were
    not queued ahead of the clock, so that launching them is in all times."""
    clock: str
    """What scored: `inner` (the claim, agreed with our clock), `outer` (the claim plus what our clock saw
    beyond it), `single` (plus what a lone call costs beyond a batched one, as those were merged), `scaled`
    (eager times a measured ratio)."""
    charges: dict[str, float] = {}
    """Of a claim that did not score as it was: milliseconds a call that our clock saw beyond it and beyond
    the baseline, while calls were `answering`, outputs `collecting` or inputs `writing`; what a call costs
    `alone` beyond a batched one; and by how much our clock was `wandering`, where it tells too little."""
    solo_ms: float | None = None
    """The baseline alone, before the contestant existed."""
    turn_ms: tuple[float, ...] = ()
    """Scored milliseconds per call of each turn, the numbers behind the median."""


class Measurement(Record):
    """Candidate and baselines on one device, interleaved."""

    candidate: Timing
    baselines: dict[str, Timing]
    speedups: dict[str, float]
    """Speedup against each baseline."""
    against: str
    """The baseline behind the headline speedup: the fastest."""
    speedup: float
    interval: Interval
    """95 % interval of the headline speedup: bootstrap over turns, widened by `process_spread`."""
    process_spread: float | None = None
    """Relative standard deviation between processes of the reference; the candidate's are taken to differ as
    much. None where it was not measured, and the interval is about these very processes."""
    noise_floor: float | None = None
    """Half-width of the same interval with the baseline against itself."""
    calls_per_batch: int
    ring_slots: int
    """Distinct input sets the timed calls rotate through."""
    inputs: str = "cold"
    contended: bool = False
    """The baseline ran slower beside this contestant than alone; its solo time was used."""


class Sanitization(Record):
    """What the sanitizers said. Silence is advice: a candidate can disturb a tool it runs beside."""

    ran: bool
    """Whether every tool finished its report. False says nothing about the candidate; `reason` says why."""
    reason: str = ""
    """Why it did not run, or, in one line, what convicts the candidate."""
    needed: bool = True
    """False for a candidate that built nothing of its own: there is nothing to run the tools on."""
    convicts: Status | None = None
    """`MEMORY_ERROR` or `RACE` when an error in the candidate's own code is certain."""
    tools: tuple[str, ...] = ()
    """Tools whose report is complete, each with the shapes it saw, such as `racecheck (small)`."""
    findings: tuple[str, ...] = ()
    """What was seen, convicting findings first; others are remarks."""
    seconds: float = 0.0
    remembered: bool = False
    """Whether the tools ran in an earlier evaluation of the same, by the same evaluator and compiler."""

    @property
    def settled(self) -> bool:
        """Whether nothing is left to do: the tools ran, or there was nothing to run them on."""
        return self.ran or not self.needed


class Attribution(Record):
    """Whose kernels did the work."""

    track: str
    """`own`, `mixed`, `library` or `unknown`."""
    own_share: float | None = None
    kernels: tuple[str, ...] = ()
    source: str = ""
    """What produced this: `profiler`, `symbols`."""


class KernelCounters(Record):
    """What a GPU's hardware counters said of one kernel; None where a counter is not known on that GPU."""

    kernel: str
    launches: int
    """In one call."""
    milliseconds: float
    """All launches together, with cold caches."""
    compute_percent: float | None = None
    """Of the peak, the busiest arithmetic or issue unit."""
    memory_percent: float | None = None
    """Of the peak, the busiest part of the memory system."""
    dram_percent: float | None = None
    l2_percent: float | None = None
    l1_percent: float | None = None
    tensor_percent: float | None = None
    """Of the tensor cores' peak issue rate."""
    active_warps_percent: float | None = None
    """Of the warps a multiprocessor can hold: the achieved occupancy."""
    sectors_per_load: float | None = None
    """32-byte sectors a warp's global load takes; 4 is what contiguous 4-byte elements take."""
    sectors_per_store: float | None = None
    registers: int | None = None
    shared_bytes: int | None = None
    """A block's shared memory, static and dynamic."""
    block_threads: int | None = None
    blocks: int | None = None
    conflict_share: float | None = None
    """Of the passes through shared memory, those that bank conflicts added."""
    stalls: dict[str, float] = {}
    """What warps waited for, in cycles an instruction, longest first."""


class Counters(Record):
    """What hardware counters said of one call. Advice: a candidate runs in the process that is counted."""

    ran: bool
    reason: str = ""
    """Why nothing was counted."""
    kernels: tuple[KernelCounters, ...] = ()
    """Longest first."""
    seconds: float = 0.0


class Plausibility(Record):
    """The time against what the hardware allows."""

    bytes_moved: int
    """Inputs and parameters, as far as the reference looks at them, read once, and outputs written once."""
    flops: int | None = None
    """Counted in the reference's products, convolutions and attention; a multiply-add is two."""
    certain_bytes: int | None = None
    """The part of the inputs and outputs that any kernel must move; None where it was not determined."""
    floor_ms: float | None = None
    """Below this the time cannot be true; None where everything could come from the cache."""
    speed_of_light: float | None = None
    """Fraction of the roofline reached, 0 to about 1; above 1 is a mark for a look, never a conviction."""
    gigabytes_per_s: float | None = None
    """This device's measured copy rate, read plus written."""
    teraflops: float | None = None
    """This device's measured matrix product rate in the problem's precision."""


class Environment(Record):
    """Where a score was measured."""

    device: str
    device_name: str
    driver: str = ""
    torch: str
    cuda: str = ""
    python: str
    compiler: str = ""
    nvcc: str = ""
    cpu: str
    threads: int
    sandbox: SandboxReport
    state: dict[str, str] = {}
    """Clocks, temperature and throttle reasons before and after, as the driver printed them; on a CPU its
    load. `OMP_WAIT_POLICY`, where it was set."""


class SandboxReport(Record):
    """What protected this machine during the evaluation."""

    tier: str
    limits: str
    """What bounded memory and tasks: `cgroup v2`, `cgroup v1`, `rlimits`."""
    seccomp: bool
    uid: str
    """`dedicated`, `own`."""


class Evaluation(Record):
    """The judge's answer for one candidate on one problem."""

    schema_version: int = SCHEMA_VERSION
    status: Status
    stage: Stage
    """The last stage entered."""
    detail: str = ""
    """One line for people: why it ended like this."""
    traceback: str = ""
    """The candidate's own, when it raised; a claim."""
    problem: str
    """Problem id, such as `level1/01_square_matmul`."""
    problem_sha: str
    candidate_sha: str
    backend: str
    config: EvaluationConfig
    speedup: float | None = None
    """Against the fastest baseline; present only when `PASSED` and timed."""
    measurement: Measurement | None = None
    verification: Verification | None = None
    findings: tuple[Finding, ...] = ()
    builds: tuple[Build, ...] = ()
    sanitization: Sanitization | None = None
    attribution: Attribution | None = None
    plausibility: Plausibility | None = None
    counters: Counters | None = None
    notes: tuple[str, ...] = ()
    """What could not be done or measured, and why."""
    problem_flaws: tuple[str, ...] = ()
    """What vetting says is wrong with the problem itself."""
    environment: Environment | None = None
    """None when the candidate never reached a machine."""
    stage_seconds: dict[str, float] = {}
    device_seconds: float | None = None
    """Seconds it had the device alone, baselines of a problem's first candidate included."""
    output_tail: str = ""
    """The end of what the contestant printed, control characters escaped; never evidence."""
    evaluator_version: str = ""
    evaluator_sha: str = ""
    """Of the evaluator's own source, first 16 hex digits: scores by different judges are told apart."""
    evaluated_at: str = ""
    """UTC, ISO 8601."""


Environment.model_rebuild()
