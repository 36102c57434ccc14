"""The library and the simulator on systems without POSIX locks and signal masks."""

from processes import python

SCRIPT = """
import importlib, pkgutil, signal, sys
sys.modules["fcntl"] = sys.modules["resource"] = sys.modules["pwd"] = None
del signal.pthread_sigmask
import armrace

def is_elsewhere(name):
    return name.startswith(("armrace.service", "armrace.dashboard")) or name.endswith("__main__")

names = [m.name for m in pkgutil.walk_packages(armrace.__path__, "armrace.", onerror=str)]
for name in names:
    if not is_elsewhere(name):
        importlib.import_module(name)
result = armrace.simulate("ucb1", [0.9, 0.1], horizon=100, replications=2, seed=7, progress=False)
print(result.final["pulls"].to_list())
"""


def test_all_but_the_service_imports_and_runs_without_posix():
    done = python("-c", SCRIPT)
    assert (done.stdout, done.returncode) == ("[[94, 6], [94, 6]]\n", 0), done.stderr
