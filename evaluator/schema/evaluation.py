"""The record of an evaluation: status, stage, and every measurement behind its score."""

from __future__ import annotations

from enum import StrEnum

from kernelwright.evaluator.schema.config import EvaluationConfig
from kernelwright.evaluator.schema.kernel_resources import KernelResources
from kernelwright.evaluator.schema.policy import ROOFLINE_NOISE
from kernelwright.evaluator.schema.record import Record

SCHEMA_VERSION = 1
"""Raised when a field of `Evaluation` changes meaning."""


class Stage(StrEnum):
    """The stages of an evaluation; each is announced before it starts."""

    SCREEN = "screen"
    OPEN = "open"
    """A referee prepares the problem's inputs and expected outputs; skipped where one is warm."""
    BUILD = "build"
    LOAD = "load"
    VERIFY = "verify"
    TIME = "time"
    ATTRIBUTE = "attribute"
    SANITIZE = "sanitize"
    DECIDE = "decide"


class Status(StrEnum):
    """The result of an evaluation. Failures of the machine or of this program are exceptions instead."""

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
    """One finding of the static checks: advice, unless it is fatal."""

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
    """Headers it was built with: `lean` or `full`; `none` where no compiler ran."""
    cached: bool
    seconds: float
    """Wall time; 0 for a cache hit."""
    cpu_seconds: float = 0.0
    """Processor time of compilers and linker; 0 for a cache hit."""
    ok: bool
    timed_out: bool = False
    """It failed because its time limit was reached."""
    log: str = ""
    """Compiler output, trimmed; empty when it built."""
    notes: tuple[str, ...] = ()
    """Flags that were ignored, and why."""
    resources: tuple[KernelResources, ...] = ()
    """Resources of its CUDA kernels, as far as the library records them."""


class Mismatch(Record):
    """The difference between wrong values and expected ones."""

    output: str
    """Path of the tensor inside the output, such as `[0]` or `["logits"]`; empty for a single tensor."""
    trial: str
    """Input distribution of the failing trial."""
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
    """Pattern of the wrong places: a band, a tile edge, a transposition, everything."""


class Verification(Record):
    """The correctness checks, and the candidate's error."""

    trials: int
    """Calls whose outputs were compared."""
    distributions: tuple[str, ...]
    weights: str
    """Method that gave the candidate the reference's parameters: `seed`, `state_dict` or `none`."""
    parameters: str
    """The same for a second draw. In one of the two, the timed one if possible, no parameter is constant."""
    error_ratio: float | None
    """Largest error of a group relative to the reference's own, over all correct trials."""
    limit_ratio: float
    gradients: tuple[str, ...] = ()
    """Gradients that were verified, such as `gradient of weight`."""
    effects: tuple[str, ...] = ()
    """Inputs and buffers that calls of the reference change, such as `input 2` or `norm.running_mean`: what a
    call left in them was verified as its outputs were."""
    constant_inputs: tuple[str, ...] = ()
    """Inputs, parameters and buffers that held the same values in all checks, such as `input 1`: they have no
    others, or the reference is not finite on any. A candidate may take them for granted."""
    weight_factor: float | None = None
    """Times farther from their means that random weights lie in the second draw; 1 where the reference stands
    no more, None where weights are not random, and in older scores."""
    bitwise_repeatable: bool | None = None
    guarded: tuple[str, ...] = ()
    """Tensors placed between guard pages in two calls: `input`, `parameters`, `allocations`; what found no
    memory there was left out. Empty where such calls raised an exception."""
    other_sizes: dict[str, Status] = {}
    """Statuses at other shapes than the evaluated ones, by name: of `SHAPES`, or scaled down."""
    shape_specialized: bool | None = None
    """True where one of `other_sizes` did not pass, which is no failure; None where none was tried."""
    mismatch: Mismatch | None = None


class Interval(Record):
    """A two-sided 95 % interval."""

    low: float
    high: float


class Timing(Record):
    """Measured time per call of the candidate or a baseline, in milliseconds."""

    median_ms: float
    """Median of the turns; on a CPU, whose cores other programs share, of their faster half."""
    spread_ms: float
    """Median absolute deviation of the turns."""
    turns: int
    calls: int
    """All timed calls."""
    inner_ms: float | None = None
    """Median of the contestant's own claim, from events around the calls."""
    outer_ms: float
    """Median of the referee's clock around the calls; outputs are collected after it stops."""
    single_ms: float | None = None
    """Median outer time of batches of one call."""
    launch_ms: float | None = None
    """Median host time to queue a call of a batch, which no time here includes. None where calls were not
    queued ahead of the clock, so that all times include launching them."""
    clock: str
    """Origin of the score: `inner` (the claim, which our clock confirms), `outer` (the claim plus time our
    clock saw beyond it), `single` (plus the additional time of a lone call, as batched calls were merged),
    `scaled` (eager times a measured ratio)."""
    charges: dict[str, float] = {}
    """Milliseconds per call added to the claim: time our clock saw beyond claim and baseline while calls were
    `answering`, outputs `collecting` or copied as they share memory (`owning`), until it stood still
    (`freezing`), or `aside`, in steps beside the calls or on the device while they were queued; additional
    time of a call `alone` over a batched one; time of the mean turn over the typical one, on a CPU outside
    the claims, too (`uneven`); and the noise of our clock, `wandering`, where it is too large to tell."""
    solo_ms: float | None = None
    """Time of the baseline alone, before the contestant started."""
    turn_ms: tuple[float, ...] = ()
    """Scored milliseconds per call of each turn, from which the median is taken."""
    taken_ms: float = 0.0
    """Milliseconds of a typical batch that other processes had a GPU while it should have been idle."""
    competing: float = 0.0
    """Mean number of other programs' threads that wanted a core during the turns and had none; on a CPU."""


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
    """Relative standard deviation between processes of the reference, and of the candidate, it is assumed."""
    spread_assumed: bool = False
    """True where `process_spread` is what processes usually differ by, as this speedup is no close call."""
    noise_floor: float | None = None
    """Half-width of the same interval with the baseline against itself."""
    calls_per_batch: int
    ring_slots: int
    """Calls of a batch, those that do not score included."""
    inputs: str = "cold"
    contended: bool = False
    """Other work disturbed the measurement, so that the interval may not hold: other programs wanted a CPU's
    cores or had a GPU in the baseline's turns; or the baseline ran slower beside this contestant than
    alone, and its time alone was used."""
    impossible: dict[str, str] = {}
    """Baselines of the policy that this problem cannot have, with the reason."""


class Sanitization(Record):
    """The sanitizers' findings. A clean report is advice: a candidate can disturb a tool in its process."""

    ran: bool
    """True where every tool finished its report. False says nothing of the candidate; `reason` says why."""
    reason: str = ""
    """Why it did not run, or, in one line, why the candidate fails."""
    needed: bool = True
    """False for a candidate that built nothing, which the tools cannot run on."""
    convicts: Status | None = None
    """`MEMORY_ERROR` or `RACE` where an error in the candidate's own code is certain."""
    tools: tuple[str, ...] = ()
    """Tools whose report is complete, each with its shapes, such as `racecheck (small)`."""
    findings: tuple[str, ...] = ()
    """All findings; those that fail the candidate come first."""
    seconds: float = 0.0
    remembered: bool = False
    """True where the tools ran in an earlier, equal evaluation by the same evaluator and compiler."""

    @property
    def settled(self) -> bool:
        """True where the tools ran, or had nothing to run on."""
        return self.ran or not self.needed


class Attribution(Record):
    """Attribution of the work to own kernels or a library's."""

    track: str
    """`own`, `mixed`, `library` or `unknown`."""
    own_share: float | None = None
    kernels: tuple[str, ...] = ()
    source: str = ""
    """Sources of this attribution: `profiler`, `symbols`."""


class KernelCounters(Record):
    """A GPU's hardware counters of one kernel; None for a counter that GPU lacks."""

    kernel: str
    launches: int
    """Launches in one call."""
    milliseconds: float
    """All launches together, with cold caches."""
    compute_percent: float | None = None
    """Share of peak of the busiest arithmetic or issue unit."""
    memory_percent: float | None = None
    """Share of peak of the busiest part of the memory system."""
    dram_percent: float | None = None
    l2_percent: float | None = None
    l1_percent: float | None = None
    tensor_percent: float | None = None
    """Share of the tensor cores' peak issue rate."""
    active_warps_percent: float | None = None
    """Achieved occupancy: share of the warps a multiprocessor can hold."""
    sectors_per_load: float | None = None
    """32-byte sectors of a warp's global load; contiguous 4-byte elements take 4."""
    sectors_per_store: float | None = None
    registers: int | None = None
    shared_bytes: int | None = None
    """A block's shared memory, static and dynamic."""
    block_threads: int | None = None
    blocks: int | None = None
    conflict_share: float | None = None
    """Share of passes through shared memory that bank conflicts added."""
    stalls: dict[str, float] = {}
    """Reasons warps waited, with cycles per instruction, longest first."""


class Counters(Record):
    """Hardware counters of one call. Advice: they are read in the candidate's process."""

    ran: bool
    reason: str = ""
    """Why nothing was counted."""
    kernels: tuple[KernelCounters, ...] = ()
    """Longest first."""
    seconds: float = 0.0


class Plausibility(Record):
    """Comparison of the time with the hardware's limits."""

    bytes_moved: int
    """Inputs and parameters, as far as the reference reads them, read once, and outputs written once."""
    flops: int | None = None
    """Operations of the reference's products, convolutions and attention; a multiply-add is two."""
    certain_bytes: int | None = None
    """Bytes of inputs and outputs that any kernel must move; None where not determined."""
    floor_ms: float | None = None
    """Least possible time; None where all data could come from the cache."""
    speed_of_light: float | None = None
    """Fraction of the roofline reached; above 1 deserves a look, but is no failure."""
    dense: bool = False
    """The roofline is that of all counted work, though the problem masks some: a kernel may skip it."""
    gigabytes_per_s: float | None = None
    """This device's measured copy rate, read plus written."""
    teraflops: float | None = None
    """This device's measured matrix product rate in the problem's precision."""

    @property
    def is_beaten(self) -> bool:
        """True where the kernel must have done less than the reference's operations: its roofline is none."""
        return (self.speed_of_light or 0.0) > ROOFLINE_NOISE


class SandboxReport(Record):
    """The protection of this machine during the evaluation."""

    tier: str
    limits: str
    """Mechanism that limited memory and tasks: `cgroup v2`, `cgroup v1`, `rlimits`."""
    seccomp: bool
    uid: str
    """`dedicated`, `own`."""


class Environment(Record):
    """The machine and software of a measurement."""

    device: str
    device_name: str
    driver: str = ""
    torch: str
    cuda: str = ""
    python: str
    compiler: str = ""
    """Name and version of the C++ compiler, on each side of a `: `; likewise below."""
    nvcc: str = ""
    """Empty on a CPU."""
    cpu: str
    threads: int
    sandbox: SandboxReport
    state: dict[str, str] = {}
    """Clocks, temperature and throttle reasons before and after, as the driver printed them; on a CPU its
    load. `OMP_WAIT_POLICY`, where it was set."""


class Evaluation(Record):
    """The evaluation of one candidate on one problem."""

    schema_version: int = SCHEMA_VERSION
    status: Status
    stage: Stage
    """The stage that decided: the last one entered, or TIME where a timed call is found wrong after it."""
    detail: str = ""
    """The reason of the status, in one line."""
    traceback: str = ""
    """Traceback of the candidate's exception, as the contestant claims it."""
    problem: str
    """Problem id, such as `level1/01_square_matmul`."""
    problem_sha: str
    candidate_sha: str
    backend: str
    config: EvaluationConfig
    speedup: float | None = None
    """Speedup over the fastest baseline; present only when `PASSED` and timed."""
    measurement: Measurement | None = None
    verification: Verification | None = None
    findings: tuple[Finding, ...] = ()
    builds: tuple[Build, ...] = ()
    sanitization: Sanitization | None = None
    attribution: Attribution | None = None
    plausibility: Plausibility | None = None
    counters: Counters | None = None
    notes: tuple[str, ...] = ()
    """Things that could not be done or measured, and why."""
    problem_flaws: tuple[str, ...] = ()
    """Flaws of the problem itself, as its inspection found them."""
    environment: Environment | None = None
    """None when the candidate never reached a machine."""
    stage_seconds: dict[str, float] = {}
    device_seconds: float | None = None
    """Seconds it had exclusive use of the device, with the baselines of a problem's first candidate."""
    output_tail: str = ""
    """End of the contestant's output, control characters escaped; never evidence."""
    evaluator_version: str = ""
    evaluator_sha: str = ""
    """First 16 hex digits of the hash of the evaluator's source, to tell versions apart."""
    scoring_rules: int = 0
    """Version of the rules that decided; 0 in records older than the count."""
    evaluated_at: str = ""
    """UTC, ISO 8601."""
