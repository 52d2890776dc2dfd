//! Names of functions and classes: known ones, and ones that would execute code.

use std::borrow::Cow;

/// The functions and classes of plain values, arrays and tensors. Types among them are the default
/// of a `defaultdict`.
const KNOWN: [&str; 34] = [
    "_codecs.encode",
    "builtins.bool",
    "builtins.bytearray",
    "builtins.bytes",
    "builtins.dict",
    "builtins.float",
    "builtins.frozenset",
    "builtins.int",
    "builtins.list",
    "builtins.object",
    "builtins.set",
    "builtins.str",
    "builtins.tuple",
    "collections.Counter",
    "collections.OrderedDict",
    "collections.defaultdict",
    "numpy.dtype",
    "numpy.ndarray",
    "numpy.core.multiarray._reconstruct",
    "numpy.core.multiarray.scalar",
    "numpy.core.numeric._frombuffer",
    "torch.Size",
    "torch.Tensor",
    "torch.device",
    "torch.nn.parameter.Parameter",
    "torch._tensor._rebuild_from_type_v2",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch.serialization._get_layout",
    "torch.storage.TypedStorage",
    "torch.storage.UntypedStorage",
];

/// Modules whose functions start programs, evaluate text, or access files or the network.
const MODULES: [&str; 28] = [
    "asyncio",
    "bdb",
    "code",
    "codeop",
    "commands",
    "ctypes",
    "ftplib",
    "http",
    "importlib",
    "marshal",
    "multiprocessing",
    "nt",
    "os",
    "pdb",
    "pickle",
    "pip",
    "posix",
    "pty",
    "runpy",
    "shutil",
    "smtplib",
    "socket",
    "subprocess",
    "sys",
    "tempfile",
    "timeit",
    "urllib",
    "webbrowser",
];

/// Such functions among Python's built-ins.
const BUILTINS: [&str; 15] = [
    "__import__",
    "apply",
    "breakpoint",
    "compile",
    "delattr",
    "eval",
    "exec",
    "execfile",
    "exit",
    "getattr",
    "globals",
    "input",
    "locals",
    "open",
    "setattr",
];

/// The current name of a function: Python 2 and early NumPy versions have other modules.
pub(crate) fn canonical(name: &str) -> Cow<'_, str> {
    let modules = [("__builtin__.", "builtins."), ("copy_reg.", "copyreg."), ("numpy._core.", "numpy.core.")];
    let moved = modules.iter().find_map(|(old, new)| Some(format!("{new}{}", name.strip_prefix(old)?)));
    moved.map_or(Cow::Borrowed(name), Cow::Owned)
}

/// Whether a function or class belongs to values, arrays or tensors.
pub(crate) fn is_known(name: &str) -> bool {
    let storage = |name: &str| name.ends_with("Storage") && !name.contains('.');
    let types = [
        "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16",
        "uint8", "bool",
    ];
    let of_torch = name.strip_prefix("torch.").is_some_and(|rest| storage(rest) || types.contains(&rest));
    let of_numpy = name.strip_prefix("numpy.dtypes.").is_some_and(|rest| rest.ends_with("DType"));
    KNOWN.contains(&canonical(name).as_ref()) || of_torch || of_numpy
}

/// Whether calling this would execute code.
pub(crate) fn runs(name: &str) -> bool {
    let module = name.split('.').next().unwrap_or_default();
    let function = name.rsplit('.').next().unwrap_or_default();
    let evaluates = matches!(module, "builtins" | "__builtin__") && BUILTINS.contains(&function);
    // `operator.attrgetter` and `functools.partial` can compose such calls.
    let composes =
        matches!(name, "operator.attrgetter" | "operator.methodcaller" | "functools.partial" | "functools.reduce");
    let loads = matches!(name, "torch.load" | "torch.hub.load" | "torch.jit.load" | "torch.storage._load_from_bytes");
    MODULES.contains(&module) || evaluates || composes || loads
}

#[cfg(test)]
mod tests {
    use super::{is_known, runs};

    #[test]
    fn commands_are_told_from_objects() {
        for name in ["os.system", "posix.system", "subprocess.Popen", "builtins.eval", "__builtin__.exec", "torch.load"]
        {
            assert!(runs(name) && !is_known(name), "{name}");
        }
        for name in
            ["torch.device", "numpy.core.multiarray.scalar", "builtins.slice", "monai.utils.enums.MetricReduction"]
        {
            assert!(!runs(name), "{name}");
        }
    }

    #[test]
    fn names_of_earlier_pythons_and_numpys_are_known() {
        for name in
            ["__builtin__.set", "numpy._core.multiarray.scalar", "torch.FloatStorage", "numpy.dtypes.Int64DType"]
        {
            assert!(is_known(name), "{name}");
        }
        for name in ["torch.cuda.FloatStorage", "torch.nn.Linear", "numpy.load", "collections.abc.Mapping"] {
            assert!(!is_known(name), "{name}");
        }
    }
}
