"""Where the work runs: threads of this process, or tasks of a Ray cluster. Neither is of our making."""

from __future__ import annotations

import concurrent.futures
import os
import platform
import queue
import socket
from collections.abc import Callable
from typing import Any, Protocol

from .. import _read
from ._work import Missing, sentence_of

Work = Callable[..., tuple[Any, Missing | None]]
INSTALL = "pip install 'tachograph[ray]'"


class ClusterError(RuntimeError):
    """The ranks could not be gathered: one sentence, with what to do. status: the command's exit status."""

    def __init__(self, text: str, status: int = 4) -> None:
        super().__init__(text)
        self.status = status


class Engine(Protocol):
    """A task is what submit() returns. parts: tasks that made what is handed over as the last arguments; no other may
    have them. ended(): those of the tasks that have ended since, maybe none, with what they could not read or, as a
    text, how they broke."""

    def submit(self, work: Work, *args: Any, parts: tuple[Any, ...] = ()) -> Any: ...
    def ended(self, tasks: list[Any]) -> list[tuple[Any, Missing | str | None]]: ...
    def result(self, task: Any) -> Any: ...
    def __enter__(self) -> Engine: ...
    def __exit__(self, *_: object) -> None: ...


class Local:
    """Threads; the library lets go of the interpreter while it reads."""

    def __init__(self, threads: int) -> None:
        self.pool = concurrent.futures.ThreadPoolExecutor(threads or len(os.sched_getaffinity(0)))
        self.done: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def submit(self, work: Work, *args: Any, parts: tuple[Any, ...] = ()) -> Any:
        task = self.pool.submit(lambda: work(*args, *(part.result()[0] for part in parts)))
        task.add_done_callback(self.done.put)
        return task

    def ended(self, tasks: list[Any]) -> list[tuple[Any, Missing | str | None]]:
        task = self.done.get()
        error = task.exception()
        return [(task, sentence_of(error) if error else task.result()[1])]

    def result(self, task: Any) -> Any:
        return task.result()[0]

    def __enter__(self) -> Local:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown(cancel_futures=True)


class Ray:
    """Tasks of Ray, a processor each. Ray repeats those that a dead worker or node took along, and what they had made;
    an OSError is repeated as well, since another worker may have room or a connection."""

    REPEAT = 3

    def __init__(self, address: str) -> None:
        try:
            import ray
            import ray.exceptions  # /tmp/ray, which Ray leaves, is a package without contents where /tmp is on the path
        except ImportError:
            raise ClusterError(f"Ray is not installed here: {INSTALL}, or use --on local") from None
        self.ray: Any = ray
        self.is_ours = not ray.is_initialized()
        self.tasks: dict[Any, Any] = {}
        self.remotes: dict[Work, Any] = {}
        if self.is_ours:
            self._connect(address)
        self._compare_versions()

    def _connect(self, address: str) -> None:
        host, _, port = address.removeprefix("ray://").partition(":")
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
            self._init(address)
        except ValueError:
            raise ClusterError(f"'{address}' is no address of a cluster: ray://HOST:PORT", 2) from None
        except OSError as error:
            raise ClusterError(
                f"no Ray cluster answers at {host}:{port} ({sentence_of(error)}): `ray start --head --ray-client-server-port {port}` on {host} starts one"
            ) from None
        except Exception as error:  # Ray says so where the versions of Python or Ray differ
            raise ClusterError(f"{address}: {sentence_of(error)}") from None

    def _init(self, address: str) -> None:
        """Ray's server starts a process for each client, which at times dies as it begins."""
        for left in reversed(range(self.REPEAT)):
            try:
                self.ray.init(address, log_to_driver=False, logging_level="ERROR")
            except ConnectionError:
                if left:
                    continue
                raise
            return

    def _compare_versions(self) -> None:
        """One look at each node that takes tasks. The function travels as code, for nodes without our package."""

        def look() -> tuple[str, str]:
            import platform

            try:
                import tachograph
            except ImportError:
                return platform.python_version(), ""
            return platform.python_version(), tachograph.__version__

        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

        nodes = [node for node in self.ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        remote = self.ray.remote(look)
        looks = [remote.options(num_cpus=0, scheduling_strategy=On(n["NodeID"], soft=True)).remote() for n in nodes]
        for node, (python, ours) in zip(nodes, self.ray.get(looks)):
            if ours != _read.version:
                raise ClusterError(version_sentence(node["NodeManagerAddress"], python, ours))

    def submit(self, work: Work, *args: Any, parts: tuple[Any, ...] = ()) -> Any:
        if work not in self.remotes:
            options = {"num_returns": 2, "max_retries": self.REPEAT, "retry_exceptions": [OSError]}
            self.remotes[work] = self.ray.remote(**options)(work)
        value, said = self.remotes[work].remote(*args, *(self.tasks.pop(part) for part in parts))
        self.tasks[said] = value
        return said

    def ended(self, tasks: list[Any]) -> list[tuple[Any, Missing | str | None]]:
        done = self.ray.wait(tasks, num_returns=len(tasks), timeout=0.2, fetch_local=False)[0]
        try:
            return list(zip(done, self.ray.get(done)))
        except self.ray.exceptions.RayError:  # of one of them
            return [(task, self._trouble(task)) for task in done]

    def _trouble(self, task: Any) -> Missing | str | None:
        try:
            found: Missing | None = self.ray.get(task)
        except self.ray.exceptions.RayTaskError as error:
            return f"{sentence_of(error.cause)} (tried {self.REPEAT + 1} times)"
        except self.ray.exceptions.RayError as error:
            return sentence_of(error)
        return found

    def result(self, task: Any) -> Any:
        return self.ray.get(self.tasks[task])

    def __enter__(self) -> Ray:
        return self

    def __exit__(self, *_: object) -> None:
        self.tasks.clear()
        if self.is_ours:
            self.ray.shutdown()


def version_sentence(node: str, python: str, ours: str) -> str:
    theirs = f"tachograph {ours}" if ours else "no tachograph"
    return (
        f"the node {node} has {theirs} (Python {python}), and here is {_read.version} (Python "
        f"{platform.python_version()}): start the cluster with the same package on every node"
    )


def engine_of(on: str, threads: int) -> Engine:
    if on == "local":
        return Local(threads)
    if on.startswith("ray://"):
        return Ray(on)
    raise ClusterError(f"'{on}' is no engine: local, or ray://HOST:PORT", 2)
