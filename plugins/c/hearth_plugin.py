"""Hearth plugins in Python: `hearth_plugin.h` by ctypes. A plugin is a class called `Plugin`:

    import hearth_plugin as hearth

    class Plugin(hearth.Plugin):
        OPTIONS = [hearth.option("every", "integer", 1, "Epochs between two lines.")]

        def listens(self):
            return [hearth.when("epoch_completed", every=self.options["every"])]

        def handle(self, event, host):
            host.log(hearth.NOTICE, f"epoch {event.epoch} of {event.max_epochs}")

Classes with a `KIND` are components, next to it or alone: see `Component`.

SPDX-License-Identifier: Apache-2.0
"""

import array
import ctypes
import importlib.util
import itertools
import json
import os
import site
import sys
import traceback
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_double, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

DEBUG, INFO, WARN, ERROR, NOTICE = range(5)
STOP, DISABLE, LOG = range(3)
ALL_RANKS, FIRST_RANK = range(2)
OUTPUTS, TENSORS, NUMBERS, TEXTS, ENGINES, ATTACHMENTS = range(6)
WEIGHTS, GRADIENTS = range(2)
FORMATS = "fdqB"  # of the types of elements: f32, f64, i64, u8

_P, _S, _I, _D = c_void_p, c_char_p, c_int32, c_double


class _Call(Structure):
    _fields_ = [("size", c_size_t), ("abi", c_uint32), ("context", _P), ("library", _S),
                ("fail", CFUNCTYPE(_I, _P, _S)), ("give", CFUNCTYPE(None, _P, _S, c_size_t))]


class _When(Structure):
    _fields_ = [("size", c_size_t), ("event", _S), ("every", c_uint64), ("after", c_uint64), ("before", c_uint64),
                ("once", POINTER(c_uint64)), ("once_count", c_size_t), ("custom", _I)]


class _Setup(Structure):
    _fields_ = [("size", c_size_t), ("abi", c_uint32), ("context", _P), ("options", _S),
                ("fail", CFUNCTYPE(_I, _P, _S, _S)), ("integer", _P), ("number", _P), ("boolean", _P), ("text", _P),
                ("listen", CFUNCTYPE(_I, _P, POINTER(_When))), ("on_error", CFUNCTYPE(None, _P, _I)),
                ("ranks", CFUNCTYPE(None, _P, _I)), ("fires", CFUNCTYPE(_I, _P, _S))]


class Event(Structure):
    """An event, and the state of the run. Texts are bytes: `event.name.decode()`."""

    _fields_ = [("size", c_size_t), ("id", c_uint32), ("rank", c_uint32), ("world_size", c_uint32),
                ("finished", c_uint32), ("name", _S), ("engine", _S), ("epoch", c_uint64), ("iteration", c_uint64),
                ("epoch_iteration", c_uint64), ("max_epochs", c_uint64), ("epoch_length", c_uint64),
                ("seed", c_uint64), ("best_epoch", c_uint64), ("best_metric", _D), ("key_metric", _S),
                ("exception", _S)]


class _Tensor(Structure):
    _fields_ = [("size", c_size_t), ("dtype", _I), ("dimensions", c_uint32), ("shape", POINTER(c_size_t)),
                ("data", _P), ("bytes", c_size_t)]


class _Host(Structure):
    _fields_ = [("size", c_size_t), ("abi", c_uint32), ("context", _P)] + [
        (name, CFUNCTYPE(result, _P, *arguments)) for name, result, *arguments in [
            ("fail", _I, _S), ("error", _S), ("log", None, _I, _S), ("terminate", None, _S),
            ("terminate_epoch", None, _S), ("interrupt", None, _S), ("metric", _I, _S, POINTER(_D)),
            ("set_metric", None, _S, _D), ("scalar", None, _S, _D), ("state", _S), ("output", _I, _S, POINTER(_D)),
            ("learning_rate", _I, POINTER(_D)), ("set_learning_rate", _I, _D), ("run", _S, _S),
            ("save_checkpoint", _I, _S, _S, c_uint64), ("load_checkpoint", _I, _S), ("names", _S, _I), ("cases", _S),
            ("numbers", _S, _S), ("texts", _S, _S), ("tensor", _I, _S, POINTER(_Tensor)),
            ("put_tensor", _I, _S, POINTER(_Tensor)),
            ("combine", _I, POINTER(_S), c_size_t, _S, _S), ("layer_statistics", _S, _I),
            ("remember", _I, _S, _P, c_size_t), ("recall", _I, _S, POINTER(_P), POINTER(c_size_t)),
            ("attach_file", _I, _S, _P, c_size_t), ("attach_image", _I, _S, POINTER(_Tensor)),
            ("attach_text", _I, _S, _S), ("run_info", _S), ("fire", _I, _S), ("call_after", _I, _D)]]


class _Array(Structure):
    _fields_ = [("size", c_size_t), ("dimensions", c_uint32), ("shape", POINTER(c_size_t)), ("values", _P),
                ("affine", _D * 16)]


class _Work(Structure):
    _fields_ = [("size", c_size_t), ("abi", c_uint32), ("context", _P), ("text", _S), ("inputs", POINTER(_Array)),
                ("count", c_size_t), ("fail", CFUNCTYPE(_I, _P, _S)), ("give", CFUNCTYPE(_I, _P, POINTER(_Array))),
                ("say", CFUNCTYPE(_I, _P, _S)), ("network", CFUNCTYPE(_I, _P, POINTER(_Array), POINTER(_Array)))]


class _Functions(Structure):
    _fields_ = [("size", c_size_t), ("options", CFUNCTYPE(_I, POINTER(_Call))),
                ("create", CFUNCTYPE(_I, POINTER(_Setup), POINTER(_P))), ("destroy", CFUNCTYPE(None, _P)),
                ("handle", CFUNCTYPE(_I, _P, POINTER(Event), POINTER(_Host))),
                ("save", CFUNCTYPE(_I, _P, POINTER(_Call))),
                ("load", CFUNCTYPE(_I, _P, _P, c_size_t, POINTER(_Call))),
                ("components", CFUNCTYPE(_I, POINTER(_Call))),
                ("make", CFUNCTYPE(_I, POINTER(_Setup), _S, POINTER(_P))),
                ("compute", CFUNCTYPE(_I, _P, POINTER(_Work))), ("release", CFUNCTYPE(None, _P)),
                ("call", CFUNCTYPE(_I, _P, _S, POINTER(_Work)))]


class HostError(Exception):
    """A failed request to the host."""


def _require(table, name):
    """Fails if the program's table lacks a function, because the program is older than this file."""
    place = getattr(type(table), name)
    if place.offset + place.size > table.size:
        raise HostError(f"this program is too old for `{name}`")


class Tensor:
    """A tensor in host memory: `shape`, `format` (of `struct`), and `data`, a copy of its bytes.
    `numpy.frombuffer(t.data, t.format).reshape(t.shape)` is an array."""

    def __init__(self, shape, format, data):
        self.shape, self.format, self.data = tuple(shape), format, bytes(data)

    def values(self):
        """The elements, as a flat view."""
        return memoryview(self.data).cast(self.format)

    def _sent(self):
        self._shape = (c_size_t * len(self.shape))(*self.shape)
        self._data = ctypes.create_string_buffer(self.data, len(self.data))
        return _Tensor(ctypes.sizeof(_Tensor), FORMATS.index(self.format), len(self.shape), self._shape,
                       ctypes.cast(self._data, _P), len(self.data))


class Array(Tensor):
    """Numbers of a component: f32, with the affine from voxel index to mm as 16 numbers, row by row.
    `numpy.frombuffer(a.data, "f").reshape(a.shape)` is an array, `Array.of(x, a.affine)` the way back."""

    IDENTITY = [1.0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]

    def __init__(self, shape, values, affine=IDENTITY):
        data = values if isinstance(values, bytes) else array.array("f", values).tobytes()
        super().__init__(shape, "f", data)
        self.affine = [float(number) for number in affine]
        count = 1
        for length in self.shape:
            count *= length
        if len(self.data) != 4 * count or len(self.affine) != 16:
            raise ValueError(f"an array of shape {self.shape} has {len(self.data)} bytes, and an affine has 16 numbers")

    @classmethod
    def of(cls, numbers, affine=IDENTITY):
        """An array from one of numpy."""
        return cls(numbers.shape, numbers.astype("f").tobytes(), affine)

    @classmethod
    def _received(cls, sent):
        shape, count = sent.shape[: sent.dimensions], 1
        for length in shape:
            count *= length
        return cls(shape, ctypes.string_at(sent.values, 4 * count), sent.affine)

    def _sent(self):
        sent = super()._sent()
        return _Array(ctypes.sizeof(_Array), sent.dimensions, sent.shape, sent.data, (_D * 16)(*self.affine))


class Host:
    """The requests of a handler. A failure raises `HostError`."""

    def __init__(self, table):
        self._table = table

    def _ask(self, name, *arguments):
        host = self._table.contents
        _require(host, name)
        texts = [a.encode() if isinstance(a, str) else a for a in arguments]
        answer = getattr(host, name)(ctypes.addressof(host), *texts)
        failed = {_I: answer == 1, _S: answer is None}
        if failed.get(type(host)._results[name], False):
            raise HostError((host.error(ctypes.addressof(host)) or b"").decode())
        return answer

    def _number(self, name, *arguments):
        value = _D()
        self._ask(name, *arguments, byref(value))
        return value.value

    def _json(self, name, *arguments):
        return json.loads(self._ask(name, *arguments))

    def log(self, level, message):
        self._ask("log", level, message)

    def terminate(self, why):
        self._ask("terminate", why)

    def terminate_epoch(self, why):
        self._ask("terminate_epoch", why)

    def interrupt(self, why):
        self._ask("interrupt", why)

    def metric(self, name):
        return self._number("metric", name)

    def set_metric(self, name, value):
        self._ask("set_metric", name, value)

    def scalar(self, tag, value):
        self._ask("scalar", tag, value)

    def state(self):
        return self._json("state")

    def output(self, name):
        return self._number("output", name)

    def learning_rate(self):
        return self._number("learning_rate")

    def set_learning_rate(self, value):
        self._ask("set_learning_rate", value)

    def run(self, engine):
        return self._json("run", engine)

    def save_checkpoint(self, folder, tag, keep_last=0):
        self._ask("save_checkpoint", folder, tag, keep_last)

    def load_checkpoint(self, folder):
        self._ask("load_checkpoint", folder)

    def names(self, kind):
        return self._json("names", kind)

    def cases(self):
        return self._json("cases")

    def numbers(self, name):
        return self._json("numbers", name)

    def texts(self, name):
        return self._json("texts", name)

    def layer_statistics(self, of):
        return self._json("layer_statistics", of)

    def tensor(self, name):
        found = _Tensor(size=ctypes.sizeof(_Tensor))
        self._ask("tensor", name, byref(found))
        return Tensor(found.shape[: found.dimensions], FORMATS[found.dtype], ctypes.string_at(found.data, found.bytes))

    def put_tensor(self, name, tensor):
        self._ask("put_tensor", name, byref(tensor._sent()))

    def attach_image(self, name, tensor):
        """Adds a picture, [H, W] or [H, W, 3], to the run's folder."""
        self._ask("attach_image", name, byref(tensor._sent()))

    def attach_file(self, name, content):
        """Adds a file of these bytes to the run's folder."""
        self._ask("attach_file", name, ctypes.create_string_buffer(content, len(content)), len(content))

    def attach_text(self, name, text):
        """Adds a text in Markdown to the run's folder."""
        self._ask("attach_text", name, text)

    def run_info(self):
        """What the run is: version, recipe, run_folder, device, rank, world_size, parameters, data."""
        return self._json("run_info")

    def fire(self, event):
        """Fires an event of `EVENTS`, after the handlers of the current event."""
        self._ask("fire", event)

    def call_after(self, seconds):
        """Requests a call of `handle` with the event `timer`; outstanding ones come before `completed`."""
        self._ask("call_after", float(seconds))

    def remember(self, key, value):
        """Keeps bytes under a key, which checkpoints hold."""
        self._ask("remember", key, ctypes.create_string_buffer(value, len(value)), len(value))

    def recall(self, key):
        """The bytes kept under a key; None if there are none."""
        place, count = _P(), c_size_t()
        try:
            self._ask("recall", key, byref(place), byref(count))
        except HostError:
            return None
        return ctypes.string_at(place, count.value) if count.value else b""

    def combine(self, inputs, how, output):
        names = (_S * len(inputs))(*[name.encode() for name in inputs])
        self._ask("combine", names, len(names), json.dumps(how), output)


_Host._results = {name: kind._restype_ for name, kind in _Host._fields_[3:]}


def option(name, kind, default, help, required=False):
    """An option, with a default as a Python value. `None` is no default."""
    text = None if default is None else json.dumps(default)
    return {"name": name, "kind": kind, "default": text, "required": required, "help": help}


def when(event, every=0, after=0, before=0, once=(), custom=False):
    """An event, and a filter on its occurrences. 0 disables a condition."""
    if min([every, after, before, *once]) < 0:
        raise ValueError(f"a filter of {event} is negative")
    counts = (c_uint64 * len(once))(*once)
    return _When(ctypes.sizeof(_When), event.encode(), every, after, before, counts, len(counts), int(custom))


class Plugin:
    """A handler. `options` has every option, with defaults filled in."""

    OPTIONS = []
    EVENTS = []  # its own events, NAME.EVENT, which `host.fire` fires
    on_error = STOP
    ranks = ALL_RANKS

    def __init__(self, options):
        self.options = options

    def listens(self):
        return []

    def handle(self, event, host):
        raise NotImplementedError

    def save(self):
        """The bytes for checkpoints."""
        return b""

    def load(self, state):
        pass


class Component:
    """A component, called PLUGIN.CLASS in recipes; the first line of its docstring is its purpose. `KIND` is
    the kind, and the methods are those of the kind:

        transform      apply(image) -> Array
        metric         measure(pred, label) -> numbers
        reader         read(path) -> Array
        map_transform  apply(images, keys, draw) -> Arrays, or Arrays and a text that `invert` gets;
                       RANDOM = True; invert(image, how) -> Array, where it has an inverse of its own
        loss           loss(pred, label) -> number, Array of the gradient
        schedule       rate(step, steps, base) -> number
        inferer        infer(image, network) -> Array; network(window) -> Array
        sampler        order(cases, epoch, draw, losses) -> indices
        layout         cases(folder) -> a list of {"name", "image", "label", "fields"}
        writer         ENDINGS = [".xyz"], SIDES = [".raw"]; write(image, path, case)

    Several threads call it; the interpreter runs one of them at a time."""

    KIND = ""
    OPTIONS = []
    RANDOM = False
    ENDINGS = []
    SIDES = []

    def __init__(self, options):
        self.options = options

    def _compute(self, inputs, text):
        if self.KIND == "transform":
            return [self.apply(*inputs)]
        if self.KIND == "metric":
            row = list(self.measure(*inputs))
            return [Array([len(row)], row)]
        return [self.read(text)]

    def _call(self, operation, inputs, text, network):
        """The arrays and the JSON of an operation."""
        if operation == "abilities":
            random, invertible = self.RANDOM, hasattr(self, "invert")
            return [], {"random": random, "invertible": invertible, "endings": self.ENDINGS, "sides": self.SIDES}
        if operation == "apply":
            made = self.apply(inputs, text["keys"], text["draw"])
            images, state = made if isinstance(made, tuple) else (made, "")
            return images, {"state": state}
        if operation == "invert":
            return [self.invert(inputs[0], text)], {}
        if operation == "loss":
            loss, gradient = self.loss(*inputs)
            return [gradient], {"loss": None if loss != loss else float(loss)}
        if operation == "rate":
            return [], {"rate": float(self.rate(text["step"], text["steps"], text["base"]))}
        if operation == "infer":
            return [self.infer(inputs[0], network)], {}
        if operation == "order":
            order = self.order(text["cases"], text["epoch"], text["draw"], text["losses"])
            return [], {"order": [int(index) for index in order]}
        if operation == "cases":
            cases = self.cases(text["folder"])
            return [], cases if isinstance(cases, dict) else {"cases": list(cases)}
        if operation == "write":
            files = self.write(inputs[0], text["path"], text["case"])
            return [], {"files": [str(file) for file in files or []]}
        raise ValueError(f"the operation {operation} is unknown")


class _Passed(Exception):
    """An error of the network, which the program knows."""


_handlers = {}
_components = {}
_keys = itertools.count(1)
_alive = []  # objects that C code points to


def _reason(author):
    """The current error, with its last place in the author's file."""
    kind, error, trace = sys.exc_info()
    frames = traceback.extract_tb(trace)
    place = ([frame for frame in frames if frame.filename == author] or frames)[-1]
    return f"{kind.__name__}: {error} ({os.path.basename(place.filename)}:{place.lineno})".encode()


def _open(plugin, call, library, module):
    """Reads MODULE.py next to the library, and sets the functions of the plugin."""
    if os.environ.get("VIRTUAL_ENV"):
        version = "python%d.%d" % sys.version_info[:2]
        site.addsitedir(os.path.join(os.environ["VIRTUAL_ENV"], "lib", version, "site-packages"))
    functions, call = _Functions.from_address(plugin), _Call.from_address(call)
    path = os.path.join(os.path.dirname(os.path.abspath(library)), module + ".py")
    try:
        spec = importlib.util.spec_from_file_location("hearth_plugin_" + module, path)
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        author = getattr(made, "Plugin", None)
        classes = {kind.__name__: kind for kind in vars(made).values()
                   if isinstance(kind, type) and issubclass(kind, Component) and kind.KIND}
        if author is None and not classes:
            raise AttributeError("it has neither a class `Plugin` nor a class with a `KIND`")
    except BaseException:
        call.fail(ctypes.addressof(call), _reason(path))
        return

    def guarded(table_at, *before):
        """Converts errors to those of the table, which is one of the arguments."""

        def wrap(function):
            def inner(*arguments):
                try:
                    function(*arguments)
                    return 0
                except _Passed:
                    return 1
                except BaseException:
                    table = arguments[table_at].contents
                    if isinstance(table, _Host):  # shown with -v
                        table.log(ctypes.addressof(table), INFO, traceback.format_exc().encode())
                    return table.fail(ctypes.addressof(table), *before, _reason(path))
            return inner
        return wrap

    def listed(options):
        return [{k: v for k, v in o.items() if v is not None} for o in options]

    def give(call, value):
        text = json.dumps(value).encode()
        call.contents.give(ctypes.addressof(call.contents), text, len(text))

    @guarded(0)
    def options(call):
        give(call, listed(author.OPTIONS if author else []))

    @guarded(0, None)
    def create(setup, place):
        table = setup.contents
        handler = author(json.loads(table.options))
        key = max(_handlers, default=0) + 1
        for event in handler.EVENTS:
            _require(table, "fires")
            if table.fires(ctypes.addressof(table), event.encode()):
                return
        for asked in handler.listens():
            if table.listen(ctypes.addressof(table), byref(asked)):
                return
        table.on_error(ctypes.addressof(table), handler.on_error)
        table.ranks(ctypes.addressof(table), handler.ranks)
        _handlers[key], place[0] = handler, key

    def destroy(key):
        _handlers.pop(key, None)

    @guarded(2)
    def handle(key, event, host):
        _handlers[key].handle(event.contents, Host(host))

    @guarded(1)
    def save(key, call):
        state = _handlers[key].save()
        call.contents.give(ctypes.addressof(call.contents), state, len(state))

    @guarded(3)
    def load(key, state, count, call):
        _handlers[key].load(ctypes.string_at(state, count) if count else b"")

    @guarded(0)
    def components(call):
        give(call, [{"kind": kind.KIND, "name": name, "help": (kind.__doc__ or "").strip().split("\n")[0],
                     "options": listed(kind.OPTIONS)} for name, kind in classes.items()])

    @guarded(0, None)
    def make(setup, name, place):
        made = classes[name.decode()](json.loads(setup.contents.options))
        key = next(_keys)
        _components[key], place[0] = made, key

    def finish(work, arrays, text=None):
        for made in arrays:
            if not isinstance(made, Array):
                raise TypeError(f"{made!r} is not a hearth_plugin.Array")
            if work.contents.give(ctypes.addressof(work.contents), byref(made._sent())):
                return
        if text is not None:
            work.contents.say(ctypes.addressof(work.contents), json.dumps(text).encode())

    def inputs(work):
        return [Array._received(work.contents.inputs[index]) for index in range(work.contents.count)]

    @guarded(1)
    def compute(key, work):
        finish(work, _components[key]._compute(inputs(work), (work.contents.text or b"").decode()))

    @guarded(2)
    def call_component(key, operation, work):
        table = work.contents

        def network(window):
            if not table.network:
                raise ValueError("there is no network")
            output = _Array(size=ctypes.sizeof(_Array))
            if table.network(ctypes.addressof(table), byref(window._sent()), byref(output)):
                raise _Passed
            return Array._received(output)

        text = json.loads(table.text) if table.text else {}
        finish(work, *_components[key]._call(operation.decode(), inputs(work), text, network))

    def release(key):
        _components.pop(key, None)

    handler = [options] + ([create, destroy, handle, save, load] if author else [None] * 5)
    parts = [components, make, compute, release, call_component] if classes else [None] * 5
    for (name, kind), function in zip(_Functions._fields_[1:], handler + parts):
        if function is None:
            continue
        setattr(functions, name, kind(function))
        _alive.append(getattr(functions, name))
    _alive.append(functions)
