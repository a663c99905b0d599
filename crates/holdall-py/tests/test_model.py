"""Models of packages run: by each runner, with right and wrong inputs, by threads, to an end."""

import gc
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import ROOT

import holdall
from holdall import carton

XOR = ROOT / "examples/xor"
X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)


def python_model(folder, code, **arguments):
    """A package of a Python model whose function `run` is given."""
    folder.mkdir(exist_ok=True)
    (folder / "main.py").write_text(f"import numpy as np\n{code}\ndef load():\n    return run\n")
    out = folder.with_suffix(".carton")
    carton.pack(folder, out, runner="python", framework_version=">=3.9", **arguments)
    return out


@pytest.fixture
def double(tmp_path):
    return python_model(
        tmp_path / "double",
        "def run(inputs): return {'y': inputs['x'] * 2}",
        inputs=[("x", "float32", ("n",))],
        outputs=[carton.Spec("y", "float32", ("n",), "twice as much")],
        self_tests=[
            {"inputs": {"x": np.arange(3, dtype=np.float32)}, "expected": {"y": np.array([0, 2, 4], np.float32)}},
            {"inputs": {"x": np.arange(2, dtype=np.float32)}, "expected": {"y": np.array([0, 3], np.float32)}, "name": "wrong"},
            {"inputs": {"x": np.arange(2, dtype=np.float32)}, "name": "runs"},
        ],
    )


def test_an_onnx_model_from_its_file_to_its_outputs(tmp_path):
    model = tmp_path / "xor.onnx"
    model.write_bytes((XOR / "model/model.onnx").read_bytes())
    label = np.array([0, 1, 1, 0], np.int64)
    report = carton.pack(model, self_tests=[{"inputs": {"x": X}, "expected": {"label": label}, "name": "all"}])
    with carton.open(report.path) as package:
        assert package.runner.name == "onnx" and package.verify().verdict == "sound"
        tests = package.test()
        assert tests and (len(tests), tests.passed, tests.failed) == (1, 1, 0)
        (test,) = tests
        assert test.name == "all" and test.seconds > 0 and test.error is None
        assert [(o.name, o.close, o.count, o.differing, o.max_abs) for o in test.outputs] == [("label", True, 4, 0, 0)]
        with package.load() as model:
            outputs = model(X)
            assert list(outputs) == ["p", "label"] and np.array_equal(outputs["label"], label)
            assert outputs["p"].dtype == np.float32 and outputs["p"].shape == (4, 2)
            outputs["p"][:] = 0
            assert repr(model) == f"<holdall.carton.Model {package.name!r}, onnx: (x) -> (p, label)>"
            for other in (model(x=X), model({"x": X}), model.run({"x": X}), model.run([X]), model([[0, 0], [0, 1]])):
                assert np.array_equal(other["label"], label[: len(other["label"])]) and other["p"].any()
    assert np.array_equal(carton.run(report.path, {"x": X[1:2]})["label"], [1])
    assert np.array_equal(carton.run(report.path, [X[1:2]])["label"], [1])
    assert carton.test(XOR)


def test_inputs_of_many_kinds(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m/w").write_bytes(b"w")
    specs = [("f", "float32", ("n",)), ("i", "int64", ()), ("s", "string", "*"), ("r", "float64", "*")]
    carton.pack(tmp_path / "m", runner="noop", framework_version="1", inputs=specs)
    with carton.load(tmp_path / "m.carton") as model:
        assert model.inputs[1] == carton.Spec("i", "int64", ()) and model.outputs == ()
        rows = [np.arange(2.0), np.arange(3.0)]
        out = model([1, 2.5], 3, ["a", "ü"], rows)
        assert out["f"].dtype == np.float32 and out["f"].tolist() == [1, 2.5]
        assert out["i"].dtype == np.int64 and out["i"].shape == () and out["i"] == 3
        assert out["s"].dtype == object and out["s"].tolist() == ["a", "ü"]
        assert [r.tolist() for r in out["r"]] == [[0, 1], [0, 1, 2]]
        big = np.arange(6, dtype=">f4")[::2]
        out = model(big, np.int64(3), "text", r=np.zeros((0, 3)))
        assert out["f"].tolist() == [0, 2, 4] and out["s"].shape == () and out["s"][()] == "text"
        assert out["r"].shape == (0, 3)
        for texts in (np.array([["a"], ["b"]]), np.array([["a"], ["b"]], object)):
            assert model(big, 1, texts, 1.5)["s"].tolist() == [["a"], ["b"]]
        assert out["f"].flags.writeable and out["s"].flags.writeable
        assert model([], 1, "x", 0)["f"].shape == (0,)


def test_wrong_inputs():
    with carton.load(XOR) as model:
        for code, call in {
            "signature/input-missing": lambda: model(),
            "signature/input-unknown": lambda: model(x=X, z=X),
            "signature/position": lambda: model(X, X),
            "signature/input-type": lambda: model(X.astype(np.float64)),
            "signature/input-rank": lambda: model(X[0]),
            "signature/input-size": lambda: model(np.zeros((1, 3), np.float32)),
        }.items():
            with pytest.raises(holdall.UsageError) as info:
                call()
            assert info.value.code in (code, "signature/position"), info.value
            assert isinstance(info.value, ValueError) and "examples/xor" in info.value.source
        for code, x in {
            "python/dtype": X.astype(np.float16),
            "signature/input-type": np.array(["a"]),
        }.items():
            with pytest.raises(holdall.HoldallError) as info:
                model(x)
            assert info.value.code == code
        for wrong in (None, b"x", {1, 2}, object()):
            with pytest.raises(TypeError):
                model(wrong)
        with pytest.raises(TypeError):
            model.run(X)
        with pytest.raises(TypeError):
            model.run({3: X})
        with pytest.raises(TypeError, match="in the declared order and by name"):
            model(X, x=X)
        with pytest.raises(holdall.UsageError):
            model([[1, 2], [3]])
        # And it still works.
        assert model(X)["label"].tolist() == [0, 1, 1, 0]


def test_numbers_that_do_not_fit(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m/w").write_bytes(b"w")
    carton.pack(tmp_path / "m", runner="noop", framework_version="1", inputs=[("u", "uint8", "*")])
    with carton.load(tmp_path / "m.carton") as model:
        assert model([255])["u"].dtype == np.uint8
        for wrong in ([256], [-1], 10**30, [1.5]):
            with pytest.raises(holdall.HoldallError):
                model(wrong)


def test_a_python_model(double):
    lines = []
    with carton.load(double, log=lambda line, is_error: lines.append((line, is_error))) as model:
        assert model(np.array([1.5], np.float32))["y"].tolist() == [3]
        tests = model.test()
    assert not tests and tests.failed == 1 and [t.passed for t in tests] == [True, False, True]
    wrong = tests.tests[1]
    assert wrong.name == "wrong" and not wrong.outputs[0]
    assert wrong.outputs[0].first == (None, [1], "2", "3") and wrong.outputs[0].differing == 1
    assert "3 self-tests: 2 passed, 1 failed" in str(tests) and "1 of 2 too far" in str(tests)
    assert carton.test(double, atol=1.5)
    with pytest.raises(holdall.UsageError):
        carton.test(double, rtol=-1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_a_model_prints_and_raises(tmp_path, capfd):
    path = tmp_path / "m"
    loud = python_model(path, "import sys\ndef run(inputs):\n    print('out'); print('err', file=sys.stderr); return 1 / 0")
    lines = []
    with carton.load(loud, log=lambda *line: lines.append(line)) as model:
        with pytest.raises(holdall.MalformedError, match="division by zero") as info:
            model(x=[1.0])
        assert info.value.code == "runner/failed" and info.value.source == str(loud)
    assert ("out", False) in lines and ("err", True) in lines
    with carton.load(loud) as model, pytest.raises(holdall.MalformedError):
        model(x=[1.0])
    assert "ZeroDivisionError" in capfd.readouterr().err

    def raises(line, is_error):
        raise RuntimeError("of the log")

    with carton.load(loud, log=raises) as model, pytest.raises(holdall.MalformedError):
        model(x=[1.0])


LOG_RAISES = """
import sys
from holdall import carton
told = []
sys.unraisablehook = lambda unraisable: told.append(unraisable.exc_type.__name__)
def log(line, is_error):
    raise {"exit": SystemExit(4), "ctrl-c": KeyboardInterrupt(), "end": GeneratorExit()}[line]
with carton.load(sys.argv[1], log=log) as model:
    assert model(x=[1.0])["x"].tolist() == [1]
    assert model(x=[2.0])["x"].tolist() == [2]
print(*sorted(set(told)))
"""


def test_what_a_log_raises_ends_neither_the_call_nor_the_process(tmp_path):
    code = "def run(inputs):\n    print('exit\\nctrl-c\\nend', flush=True); return inputs"
    chatty = python_model(tmp_path / "chatty", code)
    run = subprocess.run(
        [sys.executable, "-c", LOG_RAISES, str(chatty)], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "GeneratorExit KeyboardInterrupt SystemExit\n"


def test_loading_fails(tmp_path, double):
    unknown = tmp_path / "u"
    unknown.mkdir()
    (unknown / "w").write_bytes(b"w")
    carton.pack(unknown, runner="nobody", framework_version="1")
    with pytest.raises(holdall.UnsupportedError) as info:
        carton.load(tmp_path / "u.carton")
    assert info.value.code == "run/no-runner"
    carton.pack(unknown, runner="noop", framework_version="1", platforms=["z80-unknown-none"], overwrite=True)
    with pytest.raises(holdall.UnsupportedError) as info:
        carton.load(tmp_path / "u.carton")
    assert info.value.code == "run/platform"
    with pytest.raises(holdall.MalformedError) as info:
        carton.load(python_model(tmp_path / "b", "raise ImportError('no such thing')"), log=lambda *a: None)
    assert info.value.code == "python/load" and "no such thing" in str(info.value)
    with pytest.raises(holdall.UnsupportedError) as info:
        carton.load(double, python=tmp_path / "nope")
    assert info.value.code == "python/interpreter"
    for timeout in (0, -1, float("nan"), float("inf")):
        with pytest.raises(holdall.UsageError):
            carton.load(double, timeout=timeout)
    for wrong in ({"timeout": "1"}, {"log": 3}, {"runners": 3}, {"options": 3}):
        with pytest.raises((TypeError, ValueError)):
            carton.load(double, **wrong)
    with pytest.raises(holdall.UsageError):
        carton.load(double, options={"x": object()})
    with carton.load(XOR, options={"num_threads": 1, "nope": 2}) as model:
        assert len(model.warnings) == 1 and "nope" in model.warnings[0]


def test_a_timeout_ends_the_model(tmp_path):
    slow = python_model(tmp_path / "slow", "import time\ndef run(inputs): time.sleep(60)")
    with carton.load(slow, timeout=1.5) as model:
        start = time.monotonic()
        with pytest.raises(holdall.MalformedError) as info:
            model(x=[1.0])
        assert info.value.code == "runner/timeout" and "timeout=SECONDS" in info.value.hint
        assert time.monotonic() - start < 20
        with pytest.raises(holdall.UsageError) as info:
            model(x=[1.0])
        assert info.value.code == "run/closed"


COUNTS = """
import time
def run(inputs):
    for n in range(int(inputs["n"][0])):
        yield {"y": np.array([n], np.int64)}
        time.sleep(inputs["n"][1])
"""


def test_a_model_streams(tmp_path, double):
    with carton.load(python_model(tmp_path / "counts", COUNTS)) as model:
        n = {"n": np.array([3, 0.1])}
        start, came = time.monotonic(), []
        for outputs in model.stream(n):
            came.append((outputs["y"].tolist(), time.monotonic() - start))
            assert outputs["y"].flags.writeable and not model.closed
        assert [y for y, _ in came] == [[0], [1], [2]] and came[0][1] < came[2][1] - 0.1
        assert model.run(n)["y"].tolist() == [2]
        assert model.inputs == ()
        # A call by the thread that takes the outputs would wait for itself.
        answers = model.stream(n)
        next(answers)
        for use in (lambda: model.run(n), lambda: model.stream(n), lambda: model.test()):
            with pytest.raises(holdall.UsageError) as info:
                use()
            assert info.value.code == "python/streaming" and "`stream`" in info.value.hint
        # One by another thread waits.
        other = threading.Thread(target=lambda: came.append(model.run(n)["y"].tolist()))
        other.start()
        assert [outputs["y"].tolist() for outputs in answers] == [[1], [2]]
        other.join(20)
        assert came[-1] == [2]
        # Each of two streaming threads gets an error.
        answers, seen = model.stream(n), []
        next(answers)
        other = threading.Thread(target=lambda: seen.extend(outputs["y"].tolist() for outputs in model.stream(n)))
        other.start()
        time.sleep(0.1)
        with pytest.raises(holdall.UsageError, match="still being taken"):
            model.run(n)
        answers.close()
        other.join(20)
        assert seen == [[0], [1], [2]]
        # One that is left before its turn never has one.
        answers = model.stream(n)
        next(answers)
        waits = []
        other = threading.Thread(target=lambda: waits.append(model.stream(n)))
        other.start()
        other.join(20)
        waits.pop().close()
        assert [outputs["y"].tolist() for outputs in answers] == [[1], [2]]
        # One that is left early ends, and the model goes on.
        for outputs in model.stream(n):
            break
        assert model.run(n)["y"].tolist() == [2]
        wrong = model.stream({"n": np.array(["a"])})
        with pytest.raises(holdall.MalformedError) as info:
            list(wrong)
        assert info.value.code == "runner/failed"
        with pytest.raises(holdall.HoldallError) as info:
            list(model.stream({"n": np.array([0, 0])}))
        assert info.value.code == "run/nothing"
        assert model.run(n)["y"].tolist() == [2]
    with carton.load(double) as model:
        assert [outputs["y"].tolist() for outputs in model.stream([[1, 2.5]])] == [[2, 5]]
        with pytest.raises(holdall.UsageError) as info:
            list(model.stream({"z": [1.0]}))
        assert info.value.code.startswith("signature/")


def test_a_stream_that_does_not_end_is_left_and_closed(tmp_path):
    endless = python_model(tmp_path / "endless", COUNTS)
    n = {"n": np.array([1e9, 0.01])}
    start = time.monotonic()
    with carton.load(endless) as model:
        for outputs in model.stream(n):
            break
        with pytest.raises(holdall.UsageError) as info:
            model.run({"n": np.array([1, 0])})
        assert info.value.code == "run/closed"
    with carton.load(endless) as model:
        answers = model.stream(n)
        next(answers)
    assert model.closed and next(answers, None) is None
    model = carton.load(endless)
    answers = model.stream(n)
    next(answers)
    del model
    gc.collect()
    assert next(answers)["y"].tolist() == [1]
    answers.close()
    assert time.monotonic() - start < 60


def test_closed(double):
    model = carton.load(double)
    model.close()
    model.close()
    assert model.closed
    stream = lambda: model.stream({"x": [1.0]})  # noqa: E731
    for use in (lambda: model(x=[1.0]), stream, lambda: model.test(), lambda: model.warnings, lambda: model.__enter__()):
        with pytest.raises(holdall.UsageError) as info:
            use()
        assert info.value.code == "python/closed"
    with pytest.raises(TypeError, match="pickle the path"):
        pickle.dumps(model)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_model_that_nobody_closes_ends_with_its_object(double):
    before = children()
    model = carton.load(double)
    # What /proc says leaves some out while others end, or the threads that started them do.
    wait = time.monotonic() + 30
    while len(children() - before) != 1 and time.monotonic() < wait:
        time.sleep(0.01)
    assert len(children() - before) == 1
    del model
    gc.collect()
    assert not children() - before


def children():
    """Numbers of the processes that this one started, whichever thread did."""
    tasks = pathlib.Path("/proc/self/task").glob("*/children")
    return {int(number) for task in tasks for number in task.read_text().split()}


def test_a_model_outlives_its_package(double):
    with carton.open(double) as package:
        model = package.load()
    assert package.closed
    with model:
        assert model([1])["y"].tolist() == [2] and len(model.test()) == 3


@pytest.mark.parametrize("which", ["onnx", "python"])
def test_threads_share_a_model(which, double):
    wrong = []

    def call(seed):
        rng = np.random.default_rng(seed)
        for _ in range(20):
            if which == "onnx":
                x = rng.integers(0, 2, (5, 2)).astype(np.float32)
                if model(x)["label"].tolist() != (x[:, 0] != x[:, 1]).astype(int).tolist():
                    wrong.append(x)
            else:
                x = rng.random(4, dtype=np.float32)
                if not np.array_equal(model(x)["y"], 2 * x):
                    wrong.append(x)

    with carton.load(XOR if which == "onnx" else double) as model:
        threads = [threading.Thread(target=call, args=(seed,)) for seed in range(6)]
        [t.start() for t in threads]
        [t.join() for t in threads]
    assert not wrong


def test_other_threads_run_while_a_model_does(tmp_path):
    slow = python_model(tmp_path / "slow", "import time\ndef run(inputs): time.sleep(1.5); return inputs")
    ticks = []
    with carton.load(slow) as model:
        thread = threading.Thread(target=lambda: model(x=[1.0]))
        thread.start()
        while thread.is_alive():
            ticks.append(time.monotonic())
            time.sleep(0.01)
    assert len(ticks) > 30 and max(b - a for a, b in zip(ticks, ticks[1:])) < 1


INTERRUPTED = """
import signal, sys, time
import numpy  # Not during the call, whose interrupt would be that of the import.
from holdall import carton
# Whoever runs this in the background has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
model = carton.load(sys.argv[1])
start = time.monotonic()
print("running", flush=True)
try:
    model(x=[1.0])
except KeyboardInterrupt:
    assert time.monotonic() - start < 30
    try:
        model(x=[1.0])
    except ValueError as e:
        print("interrupted", e.code)
"""


def test_ctrl_c_ends_a_call(tmp_path):
    slow = python_model(tmp_path / "slow", "import time\ndef run(inputs): time.sleep(100)")
    run = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(slow)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert run.stdout.readline() == "running\n"
    time.sleep(0.5)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert out == "interrupted run/closed\n" and run.returncode == 0, err


FORKED = """
import os, sys
import numpy as np
from holdall import carton
model = carton.load(sys.argv[1])
x = np.zeros((1, 2) if sys.argv[2] == "onnx" else 2, np.float32)
expected = {k: v.tolist() for k, v in model(x).items()}
child = os.fork()
if child == 0:
    try:
        model(x)
    except ValueError as e:
        print(e.code, "in process %d" % os.getppid() in str(e), e.hint, flush=True)
    model.close()
    os._exit(0)
os.waitpid(child, 0)
assert {k: v.tolist() for k, v in model(x).items()} == expected
with carton.load(sys.argv[1]) as again:
    again(x)
print("parent")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("which", ["onnx", "python"])
def test_a_model_is_of_the_process_that_loaded_it(which, double):
    package = XOR if which == "onnx" else double
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, str(package), which], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "run/closed True load it in this process\nparent\n"


FORKED_IN_A_CALL = """
import os, sys, threading, time
from holdall import carton
model = carton.load(sys.argv[1])
call = threading.Thread(target=lambda: model(x=[1.0]))
call.start()
while not os.path.exists(sys.argv[2]):
    time.sleep(0.05)
child = os.fork()
if child == 0:
    try:
        model(x=[1.0])
    except ValueError as e:
        print(e.code, flush=True)
    print(model.closed, flush=True)
    model.close()
    del model
    os._exit(0)
for _ in range(100):
    if os.waitpid(child, os.WNOHANG) != (0, 0):
        break
    time.sleep(0.1)
else:
    os.kill(child, 9)
    print("hangs")
call.join()
print("parent", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_process_does_not_wait_for_a_call_of_its_parent(tmp_path):
    began = tmp_path / "began"
    code = f"import pathlib, time\ndef run(inputs): pathlib.Path({str(began)!r}).touch(); time.sleep(4); return inputs"
    slow = python_model(tmp_path / "slow", code)
    command = [sys.executable, "-W", "ignore", "-c", FORKED_IN_A_CALL, str(slow), str(began)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.stdout == "run/closed\nFalse\nparent\n", run.stdout + run.stderr


def test_a_model_has_a_chosen_environment(tmp_path, monkeypatch):
    code = "import os\ndef run(i): return {'y': np.array(sorted(os.environ))}"
    path = python_model(tmp_path / "env", code)
    monkeypatch.setenv("HF_TOKEN", "secret")
    names = lambda **env: set(carton.run(path, {"x": [1.0]}, **env)["y"].tolist())  # noqa: E731
    usual = names()
    assert "PATH" in usual and "HF_TOKEN" not in usual
    assert names(env=["HF_TOKEN"]) - usual == {"HF_TOKEN"}
    assert names(env={"MINE": "1"}) - usual == {"MINE"}
    for env in ("HF_TOKEN", [1], {"A": None}, {"A": 1}, 3):
        with pytest.raises(TypeError):
            names(env=env)
    for env in (["HOLDALL_NOT_SET"], {"A=B": "x"}, {"": "x"}):
        with pytest.raises(holdall.UsageError) as info:
            names(env=env)
        assert info.value.code == "run/environment"


def test_texts_and_numbers_through_python(tmp_path):
    code = "def run(i): return {'n': np.array([len(t) for t in i['t']]), 'u': np.array([t.upper() for t in i['t']])}"
    path = python_model(tmp_path / "t", code, inputs=[("t", "string", ("n",))])
    out = carton.run(path, {"t": ["ab", "ß"]})
    assert out["n"].tolist() == [2, 1] and out["u"].tolist() == ["AB", "SS"] and out["u"].dtype == object


def test_damaged_packages_are_not_run(tmp_path):
    carton.pack(XOR, tmp_path / "x.carton")
    data = bytearray((tmp_path / "x.carton").read_bytes())
    with carton.open(bytes(data)) as package:
        at = data.find(package.read("model/model.onnx"))
    data[at] ^= 1
    with pytest.raises(holdall.IntegrityError):
        carton.test(data)
    with pytest.raises(holdall.MalformedError):
        carton.run(b"", {})
