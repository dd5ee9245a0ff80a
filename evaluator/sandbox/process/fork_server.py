"""A Python that has imported modules once and forks programs into sandboxes: importing torch takes a second.

Run by path outside any sandbox, never imported. It sees no foreign code, no plan and no secret. For each
request it forks twice. The first child enters a sandbox that stands already, forks the second one there,
waits for its end and reports that as `init` would. The second one is the program: it gives up all that `init`
has a program give up, then runs its text in this interpreter. It decides nothing.
"""

import ctypes
import fcntl
import gc
import importlib
import importlib.util
import marshal
import os
import resource
import signal
import socket
import sys
import types

REQUEST_BYTES = 4096
REQUEST_FILES = 64
LIBC = ctypes.CDLL(None, use_errno=True)


def load_init() -> types.ModuleType:
    """Load `init`, which stands beside this file."""
    path = os.path.join(os.path.dirname(__file__), "init.py")  # noqa: PTH118, PTH120
    spec = importlib.util.spec_from_file_location("sandbox_init", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


INIT = load_init()


def serve(server: socket.socket) -> tuple[int, int, list[int]]:
    """Fork for each request; returns in the program's process, with its channel, output and descriptors."""
    own = os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the first children
    server.send(b"ready")
    while True:
        data, files, _, _ = socket.recv_fds(server, REQUEST_BYTES, REQUEST_FILES)
        if not data:
            os._exit(0)
        try:
            child = os.fork()
        except OSError:  # for want of memory or tasks: the launcher sees its channel closed
            child = -1
        if child == 0:
            server.close()
            return enter(*marshal.loads(data), server=own, files=files)
        INIT.close_all(set(files))


def enter(flags: int, count: int, free: int, *, server: int, files: list[int]) -> tuple[int, int, list[int]]:
    """Enter a sandbox and fork the program there; only that process returns, as in `serve`.

    The first `count` files are a process, its namespaces, which have these `flags`, and its root. Descriptors
    from `free` on are in nobody's way: the program's own get smaller numbers.
    """
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD, free) for file in files]
    (*namespaces, root), (control, output, *passed) = moved[:count], moved[count:]
    INIT.close_all(set(files))
    program = -1
    try:
        INIT.prctl(INIT.PR_SET_PDEATHSIG, INIT.SIGKILL)
        if os.getppid() != server:
            os._exit(1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        join(flags, *namespaces, root=root)
        INIT.close_all({*namespaces, root})
        program = os.fork()
    except OSError as error:
        INIT.fail(control, str(error))
    if program == 0:
        return control, output, passed
    INIT.close_all({0, 1, 2, output, *passed})
    INIT.send_line(control, f"exited {os.waitpid(program, 0)[1]}")
    os._exit(0)


def join(flags: int, process: int, *namespaces: int, root: int) -> None:
    """Enter a process's namespaces: all at once, as owners may differ, or one by one; then its root."""
    if LIBC.setns(process, flags) != 0:
        for namespace in namespaces:
            INIT.check(LIBC.setns(namespace, 0), "setns")
    os.fchdir(root)
    os.chroot(".")


def become(control: int, output: int, passed: list[int]) -> tuple[str, list[str]]:
    """Take on the plan's limits and descriptors; returns the program's text and its arguments."""
    try:
        os.setsid()
        os.closerange(0, 3)
        os.set_inheritable(os.open("/dev/null", os.O_RDONLY), True)
        for number in (1, 2):
            os.dup2(output, number)
        INIT.send_line(control, "worker")
        plan = INIT.receive(control)
        for file, number in zip(passed, plan["fds"], strict=True):
            os.dup2(file, number)
        INIT.confine(plan, {control})
        os.environ.clear()
        os.environ.update({os.fsdecode(key): os.fsdecode(text) for key, text in plan["environment"].items()})
        sys.path = [place for place in sys.path if os.path.exists(place)]  # noqa: PTH110
        command = [os.fsdecode(word) for word in plan["argv"]]
    except BaseException as error:  # noqa: BLE001  # the server's own code may not go on in here
        INIT.fail(control, str(error))
    INIT.send_line(control, "started")
    os.close(control)
    place = command.index("-c")
    return command[place + 1], ["-c", *command[place + 2 :]]


def can_use_gpus_once_forked() -> bool:
    """Ask torch, in a child."""
    refuses = getattr(getattr(sys.modules.get("torch"), "_C", None), "_cuda_isInBadFork", None)
    if refuses is None:
        return True
    child = os.fork()
    if child == 0:
        os._exit(refuses())
    return os.waitpid(child, 0)[1] == 0


def main() -> types.CodeType:
    """Import, serve, and return in a program's process with its code."""
    INIT.prctl(INIT.PR_SET_PDEATHSIG, INIT.SIGKILL)  # an import may hang
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    gc.disable()
    # Torch's compiler asks for GPUs when it is imported: of the driver, it would open it for good.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    for name in sys.argv[2:]:
        importlib.import_module(name)
    if not can_use_gpus_once_forked():
        sys.exit("an imported module has opened the GPU driver, which forked programs could not use")
    gc.freeze()
    gc.enable()
    text, sys.argv = become(*serve(socket.socket(fileno=int(sys.argv[1]))))
    # Each program draws numbers of its own; `random` sees to that itself.
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    return compile(text, "<string>", "exec", dont_inherit=True)


if __name__ == "__main__":
    CODE = main()
    sys.modules["__main__"] = types.ModuleType("__main__")
    exec(CODE, sys.modules["__main__"].__dict__)  # the launcher's command
