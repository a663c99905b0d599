# The runner's side of the protocol, in Python: frames and values, sections 2 to 4 of docs/spec/runner.md.
import collections.abc, importlib, json, os, shutil, signal, socket, struct, sys, threading, time, traceback

PREFIX = struct.Struct("<B3sIII")
KINDS = ("hello", "ready", "load", "loaded", "call", "item", "done", "fail", "bye")
PROTOCOL = 1
LENGTH_MAX = 64 << 20
DATA_TARGET = 16 << 20
MESSAGE_MAX = 64 << 10


def close_others():
    """Closes all inherited file descriptors except the connection and the log: the model must not use the caller's."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            # The list includes the descriptor that was used for listing, which is closed by now.
            numbers = [int(name) for name in os.listdir(folder)]
        except (OSError, ValueError):
            continue
        for number in numbers:
            if number > 2:
                try:
                    os.close(number)
                except OSError:
                    pass
        return
    # Windows passes no others on.
    if hasattr(os, "sysconf"):
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))


def own_wire():
    """Moves the connection away from descriptor 0, where the model's code might find it."""
    global wire
    # On Windows, a variable has the port, and a secret that is sent first.
    connection = os.environ.pop("HOLDALL_RUNNER_CONNECTION", None)
    if connection is not None:
        port, secret = connection.split(":")
        wire = socket.create_connection(("127.0.0.1", int(port)))
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire.sendall(secret.encode())
        return
    wire = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sys.stdin = open(0, closefd=False)


# Folders to be removed when the other side is gone.
orphans = []


def end_with_parent(parent):
    while os.getppid() == parent:
        time.sleep(1)
    end()


def end():
    for folder in orphans:
        # Read-only folders cannot be emptied. Missing ones were removed by the other thread.
        for inside, _, _ in os.walk(folder):
            try:
                os.chmod(inside, 0o700)
            except OSError:
                pass
        shutil.rmtree(folder, ignore_errors=True)
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


class Gone(BaseException):
    """The other side has closed the connection without a message."""


class NoFrame(BaseException):
    """The received bytes are not a frame, so nothing after them can be read."""


def article(name):
    return ("an " if name[:1] in "aeiouAEIOU" else "a ") + name


def kind_of(value):
    return "None" if value is None else article(type(value).__name__)


def exception_text(e):
    """Returns the text of an exception, whose `__str__` may fail."""
    try:
        return str(e)
    except BaseException:
        return "(its text is not available)"


def is_text(value):
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


class Failure(Exception):
    """A failure to report to the other side. `what` names the broken rule."""

    def __init__(self, what, message):
        # Unpaired surrogates cannot be encoded as UTF-8, and the length of a frame is limited.
        message = message[:MESSAGE_MAX].encode("utf-8", "backslashreplace").decode()
        super().__init__(message)
        self.what = what


def exactly(count):
    out = bytearray(count)
    view = memoryview(out)
    while len(view):
        try:
            got = wire.recv_into(view)
        except OSError:
            got = 0
        if got == 0:
            raise Gone()
        view = view[got:]
    return out


def receive():
    kind, zeros, request, header, data = PREFIX.unpack(exactly(PREFIX.size))
    if not 1 <= kind <= len(KINDS) or any(zeros) or max(header, data) > LENGTH_MAX:
        raise NoFrame("this is not the start of a frame")
    try:
        message = json.loads(bytes(exactly(header)))
    except ValueError as e:
        raise NoFrame("the header of a frame is not JSON: %s" % e)
    if not isinstance(message, dict):
        raise NoFrame("the header of a frame is not a JSON object")
    return KINDS[kind - 1], request, message, exactly(data)


def send(kind, request, header, data=b""):
    text = json.dumps(header).encode()
    try:
        wire.sendall(PREFIX.pack(KINDS.index(kind) + 1, b"\0\0\0", request, len(text), len(data)) + text)
        if data:
            wire.sendall(data)
    except OSError:
        raise Gone() from None


class Wire:
    """Values in frames, with the folder for shared memory."""

    def __init__(self, folder, shared_from):
        self.folder = folder
        self.shared_from = shared_from
        self.files = 0

    def array(self, row, data):
        if "nested" in row:
            return [self.array(inner, data) for inner in row["nested"]]
        shape = tuple(row["shape"])
        if row["dtype"] == "string":
            # NumPy's string type drops zeros at the end.
            zeros = any(text.endswith("\0") for text in row["strings"])
            return np.array(row["strings"], dtype=object if zeros else np.str_).reshape(shape)
        dtype = np.dtype(row["dtype"]).newbyteorder("<")
        if "file" in row:
            path = os.path.join(self.folder, "in-%d" % row["file"])
            # Copy-on-write: the model may modify the array.
            out = np.memmap(path, dtype=dtype, mode="c", shape=shape or (1,)).reshape(shape)
            os.unlink(path)
            return out.view(np.ndarray)
        count = 1
        for size in shape:
            count *= size
        if count == 0:
            return np.zeros(shape, dtype)
        return np.frombuffer(data, dtype, count, row["at"]).reshape(shape)

    def row(self, name, value, data):
        if isinstance(value, (list, tuple)) and value and all(isinstance(v, np.ndarray) for v in value):
            return {"nested": [self.row(name, inner, data) for inner in value]}
        try:
            array = np.asarray(value)
        except Exception as e:
            raise Failure("output", "output `%s` is not an array: %s" % (name, exception_text(e)))
        if array.dtype.kind in "UOT":
            texts = array.reshape(-1).tolist()
            if all(isinstance(text, str) for text in texts):
                if not all(is_text(text) for text in texts):
                    raise Failure("output", "output `%s` has a string with an unpaired surrogate" % name)
                return {"dtype": "string", "shape": list(array.shape), "strings": texts}
        known = array.dtype.kind in "iu" or array.dtype.kind == "f" and array.dtype.itemsize in (4, 8)
        if not known:
            raise Failure("output", "output `%s` is an array of %s" % (name, array.dtype))
        # ascontiguousarray would turn a scalar into an array of one dimension.
        array = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
        row = {"dtype": array.dtype.name, "shape": list(array.shape), "len": array.nbytes}
        if array.nbytes > self.shared_from or len(data) + array.nbytes > DATA_TARGET:
            row["file"] = self.files
            path = os.path.join(self.folder, "out-%d" % self.files)
            self.files += 1
            with open(path, "xb") as file:
                array.tofile(file)
        else:
            data.extend(bytes(-len(data) % 64))
            row["at"] = len(data)
            data.extend(array.tobytes())
        return row

    def rows(self, values):
        if not isinstance(values, collections.abc.Mapping):
            raise Failure("output", "the model returned %s, not a dict" % kind_of(values))
        data, rows = bytearray(), []
        for name, value in values.items():
            if not isinstance(name, str):
                raise Failure("output", "the name of an output is %s" % kind_of(name))
            if not is_text(name):
                raise Failure("output", "the name `%s` of an output has an unpaired surrogate" % name)
            rows.append(dict(self.row(name, value, data), name=name))
        return {"values": rows}, data


def call(run, values, request, wire_values):
    try:
        given = run(values)
    except BaseException as e:
        traceback.print_exc()
        raise Failure("call", "%s: %s" % (type(e).__name__, exception_text(e)))
    if isinstance(given, collections.abc.Mapping) or not isinstance(given, collections.abc.Iterator):
        given = iter((given,))
    while True:
        try:
            item = next(given)
        except StopIteration:
            return
        except BaseException as e:
            traceback.print_exc()
            raise Failure("call", "%s: %s" % (type(e).__name__, exception_text(e)))
        header, data = wire_values.rows(item)
        send("item", request, header, data)


def answer(kind, request, header, data, runner, state):
    if kind == "hello":
        if PROTOCOL not in header.get("protocols", ()):
            raise Failure("protocol", "none of the offered protocol versions is %d" % PROTOCOL)
        global np
        try:
            np = importlib.import_module("numpy")
        except BaseException as e:
            raise Failure("numpy", "`import numpy` fails: %s" % exception_text(e))
        orphans.append(header["shared"])
        state["values"] = Wire(header["shared"], header["shared_from"])
        send("ready", request, dict(runner.start(), protocol=PROTOCOL, runner=runner.name))
    elif kind == "load":
        if header.get("temporary"):
            orphans.append(header["temporary"])
        loaded = runner.load(header["model"], header.get("options") or {}, header)
        state["run"], warnings = loaded if isinstance(loaded, tuple) else (loaded, [])
        send("loaded", request, {"warnings": warnings})
    elif kind == "call":
        if "run" not in state:
            raise Failure("order", "no model is loaded")
        rows = header["values"]
        values = {row["name"]: state["values"].array(row, data) for row in rows}
        call(state["run"], values, request, state["values"])
        send("done", request, {})
    else:
        raise Failure("order", "unexpected frame of kind `%s`" % kind)


def serve(runner):
    """Answers requests until the connection is closed. `runner` has

    - `name`, a string;
    - `start()`, which returns a dict with `version`, the version of the framework as MAJOR.MINOR.PATCH, and
      optionally `compat_versions`, the supported versions of the folder `model`;
    - `load(folder, options, header)`, which returns the function that runs the model, or a tuple of the function and
      a list of warnings. `header` has `inputs` and `outputs`, lists of dicts with `name`, `dtype` and `internal_name`.

    The function takes a dict of NumPy arrays by name, and returns such a dict, or an iterator of dicts. Failures are
    reported by raising `Failure`.
    """
    parent = os.getppid()
    close_others()
    own_wire()
    threading.Thread(target=end_with_parent, args=(parent,), daemon=True).start()
    state = {}
    try:
        while True:
            kind, request, header, data = receive()
            if kind == "bye":
                return
            try:
                answer(kind, request, header, data, runner, state)
            except Failure as e:
                send("fail", request, {"what": e.what, "message": str(e)})
            sys.stdout.flush()
            sys.stderr.flush()
    except Gone:
        end()
    except NoFrame as e:
        print(e, file=sys.stderr, flush=True)
        sys.exit(1)
