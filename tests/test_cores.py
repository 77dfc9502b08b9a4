"""Threads by default: as many as the process may use cores, by affinity and control groups."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from whence._base import cores


def machine(root: Path, cgroup: str, mountinfo: str, files: dict[str, str]) -> Path:
    """/proc/self and control groups of a made-up machine."""
    for name, text in {"proc/self/cgroup": cgroup, "proc/self/mountinfo": mountinfo, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


V2_MOUNT = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNT = "33 32 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
V1_CONTAINER = "33 32 0:29 /docker/ab /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"


@pytest.mark.parametrize(
    ("cgroup", "mountinfo", "files", "limit"),
    [
        ("0::/\n", V2_MOUNT, {"sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2),
        ("0::/\n", V2_MOUNT, {"sys/fs/cgroup/cpu.max": "max 100000\n"}, 0),
        ("0::/a/b\n", V2_MOUNT, {"sys/fs/cgroup/a/b/cpu.max": "max 100000", "sys/fs/cgroup/a/cpu.max": "5 5"}, 1),
        ("0::/a/b\n", V2_MOUNT, {"sys/fs/cgroup/a/b/cpu.max": "30 10", "sys/fs/cgroup/a/cpu.max": "70 10"}, 3),
        (
            "4:cpu,cpuacct:/job\n0::/\n",
            V1_MOUNT,
            {
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "400000\n",
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            },
            4,
        ),
        (
            "4:cpuacct,cpu:/docker/ab\n",
            V1_CONTAINER,
            {
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "10000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            1,
        ),
        (
            "4:cpu:/\n",
            V1_MOUNT,
            {
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            0,
        ),
        ("0::/\n", V2_MOUNT, {"sys/fs/cgroup/cpu.max": "100000 0\n"}, 0),
        ("no such line\n", "nor this\n", {}, 0),
    ],
)  # fmt: skip
def test_the_cpu_limit_of_control_groups_is_the_tightest_from_the_process_s_group_up(
    tmp_path: Path, cgroup: str, mountinfo: str, files: dict[str, str], limit: int
) -> None:
    assert cores.quota(str(machine(tmp_path, cgroup, mountinfo, files))) == limit


def test_without_proc_there_is_no_limit_by_control_groups(tmp_path: Path) -> None:
    assert cores.quota(str(tmp_path)) == 0


def test_threads_follow_the_process_s_affinity() -> None:
    item = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, {{{item}}}); from whence._base import cores; print(cores.available())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"


def test_nothing_asks_for_all_cores_of_the_machine() -> None:
    source = Path(cores.__file__).parent
    asking = [path for path in source.rglob("*.py") if "cpu_count" in path.read_text()]
    assert asking == [source / "cores.py"]
