"""Spark in the place of our own processes: the same lines go through the same functions, on the machines of a cluster.

The driver cuts the dump into splits and hands each to a task, which undoes bzip2 and keeps what is wanted exactly as
one process does (`dumpsplits`, `dumplines`); what comes back is put together in the dump's order. So the extract, and
with it the snapshot, has the same bytes. Each machine must see the dump under the same path, and have dyknow installed.

A wave of splits, one a core, is collected at a time, with the next ones already at work: the driver's memory does not
grow with the dump.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kg.errors import DyknowError
from kg.sources.dumplines import Found, Wanted
from kg.sources.dumps import Reader
from kg.sources.dumpsplits import Answer, Split, answers, joined, splits_of
from kg.sources.dumptext import Block

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
"""The master that is this machine with all its cores."""

_PYSPARK: Final = 4
_JAVA: Final = 17
_JAVA_HINT: Final = f"Install Java {_JAVA} or newer (e.g. apt-get install openjdk-17-jre-headless), or set JAVA_HOME."
_WAVES: Final = 3  # one that is read and two that are computed: no core waits for the slowest task of a wave
_GROUPS: Final = count(1)


def install(*packages: str) -> str:
    """Return the command that gets packages for the Python that runs, however dyknow itself came to it."""
    return shlex.join((sys.executable, "-m", "pip", "install", *packages))


# What Spark needs


def check() -> None:
    """Make sure that Spark can be started.

    Raises:
        DyknowError: pyspark or Java is missing or too old; the hint tells how to get it.
    """
    try:
        import pyspark  # noqa: PLC0415 -- a part of the extra
    except ImportError:
        raise DyknowError(
            "The engine spark needs pyspark, which is not installed.",
            hint=f"Install it: {install(f'pyspark>={_PYSPARK}')}",
        ) from None
    if int(pyspark.__version__.partition(".")[0]) < _PYSPARK:
        raise DyknowError(
            f"The engine spark needs pyspark {_PYSPARK} or newer; this is {pyspark.__version__}.",
            hint=f"Get it: {install('--upgrade', f'pyspark>={_PYSPARK}')}",
        )
    version = java_version(_java())
    if version < _JAVA:
        raise DyknowError(f"Spark needs Java {_JAVA} or newer; {_java()} is {version}.", hint=_JAVA_HINT)


def _java() -> str:
    """Return the program that Spark will start."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if found is None:
        where = f"in JAVA_HOME, which is {home}" if home else "on the PATH, and JAVA_HOME is not set"
        raise DyknowError(f"Spark needs Java {_JAVA} or newer; there is no java {where}.", hint=_JAVA_HINT)
    return found


def java_version(java: str) -> int:
    """Return the major version of a Java program: 17, or 8 for one that calls itself 1.8.

    Raises:
        DyknowError: it does not tell.
    """
    try:
        told = subprocess.run((java, "-version"), capture_output=True, text=True, check=False, timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DyknowError(f"{java} cannot be run: {error}.", hint=_JAVA_HINT) from None
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    if found is None:
        raise DyknowError(f"{java} does not tell its version.", hint=_JAVA_HINT)
    return int(found[1])


@contextmanager
def session(master: str = LOCAL) -> Iterator["SparkSession"]:
    """Give a session of Spark, which ends with the block.

    Settings of a cluster come from where Spark takes them: ``SPARK_CONF_DIR``, ``PYSPARK_PYTHON``.

    Args:
        master: as ``spark-submit --master`` has it: ``local[*]``, ``local[2]``, ``spark://host:7077``, ``yarn``,
            ``k8s://…``.

    Raises:
        DyknowError: pyspark or Java is missing or too old, or the master is not there.
    """
    check()
    from pyspark.sql import SparkSession  # noqa: PLC0415 -- a part of the extra

    builder = SparkSession.builder.master(master).appName("dyknow").config("spark.log.level", "ERROR")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    if master.startswith("local"):
        # The same interpreter with the same packages, and no name of this machine that would have to be looked up.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.config("spark.executorEnv.PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        builder = builder.config("spark.driver.host", "localhost").config("spark.driver.bindAddress", "127.0.0.1")
        builder = builder.config("spark.ui.enabled", "false")
        # Who asks for tables leaves no folder where the command was called.
        builder = builder.config("spark.sql.warehouse.dir", str(Path(tempfile.gettempdir(), "spark-warehouse")))
        # Here Java hands out work and passes bytes on: compiling itself thoroughly takes longer than that does.
        builder = builder.config("spark.driver.defaultJavaOptions", "-XX:TieredStopAtLevel=1")
    try:
        started = builder.getOrCreate()
    except Exception as error:
        reason = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        raise DyknowError(
            f"Spark did not start with the master {master}: {_first(str(error), reason[0])}",
            hint="Give --master local[*], spark://HOST:7077, yarn or k8s://HOST:PORT.",
        ) from error
    try:
        yield started
    finally:
        started.stop()


def _first(told: str, otherwise: str) -> str:
    """Return the cause among the lines of an error of Java, as one sentence."""
    causes = re.findall(r"^(?:: |Caused by: )?[\w.$]*(?:Exception|Error): (.+)$", told, re.MULTILINE)
    return (causes[-1] if causes else otherwise).rstrip(".") + "."


# A dump


def reader(spark: "SparkSession") -> Reader:
    """Return what reads a dump in the place of processes on this machine: for `extract`, `named_in`, `from_dump`."""
    return partial(_read, spark)


def _read(spark: "SparkSession", path: Path, wanted: Wanted) -> Generator[tuple[Block, Found]]:
    splits = splits_of(path, spark.sparkContext.defaultParallelism)
    with closing(_collected(spark, splits, path.absolute(), wanted)) as told:
        yield from joined(told, path, wanted)


def _collected(spark: "SparkSession", splits: Sequence[Split], path: Path, wanted: Wanted) -> Generator[Answer]:
    """Yield the answers to all splits in their order."""
    context = spark.sparkContext
    group, shared = f"dyknow dump {next(_GROUPS)}", context.broadcast(wanted)

    def job(wave: Sequence[Split]) -> list[Answer]:
        context.setJobGroup(group, f"{path.name}, from byte {wave[0].start}", interruptOnCancel=True)
        tasks = context.parallelize(wave, len(wave))
        told: list[Answer] = tasks.mapPartitions(lambda own: answers(own, path, shared.value)).collect()
        return told

    waves = _waves(splits, lambda: context.defaultParallelism)
    pool = ThreadPoolExecutor(_WAVES)
    due: deque[Future[list[Answer]]] = deque()
    try:
        while (new := [pool.submit(job, wave) for wave in islice(waves, _WAVES - len(due))]) or due:
            due.extend(new)
            yield from _result(due.popleft(), path)
    finally:
        context.cancelJobGroup(group)
        pool.shutdown(cancel_futures=True)
        shared.unpersist()


def _waves(splits: Sequence[Split], cores: Callable[[], int]) -> Iterator[Sequence[Split]]:
    """Yield as many splits at a time as there are cores then, for a cluster may grow."""
    start = 0
    while start < len(splits):
        size = max(cores(), 1)
        yield splits[start : start + size]
        start += size


def _result(job: Future[list[Answer]], path: Path) -> list[Answer]:
    try:
        return job.result()
    except Exception as error:
        if isinstance(error, DyknowError):
            raise
        raise DyknowError(
            f"Spark gave up reading {path}: {_first(str(error), type(error).__name__)}",
            hint=f"Is dyknow installed where the tasks run, for {os.environ.get('PYSPARK_PYTHON', 'python3')}? "
            "PYSPARK_PYTHON says which Python they take. Nothing was written.",
        ) from error
