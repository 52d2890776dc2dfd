//! Objects of a pickle that are not weights, and calls that no file of weights needs.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use pytorch_reader::PickleValue;
use regex::bytes::Regex;
use serde_json::Value;

/// Modules whose functions start programs, evaluate text, reach files or the network.
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

/// The same among Python's own functions.
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

/// Whether calling this would execute code.
pub(super) fn runs(name: &str) -> bool {
    let module = name.split('.').next().unwrap_or_default();
    let function = name.rsplit('.').next().unwrap_or_default();
    let evaluates = matches!(module, "builtins" | "__builtin__") && BUILTINS.contains(&function);
    // `operator.attrgetter` and `functools.partial` compose such calls.
    let composes =
        matches!(name, "operator.attrgetter" | "operator.methodcaller" | "functools.partial" | "functools.reduce");
    let loads = matches!(name, "torch.load" | "torch.hub.load" | "torch.jit.load" | "torch.storage._load_from_bytes");
    MODULES.contains(&module) || evaluates || composes || loads
}

/// The types of objects other than tensors, storages and plain values, each once.
pub(super) fn objects(value: &PickleValue) -> Vec<String> {
    let mut found = Vec::new();
    collect(value, &mut found);
    found.sort();
    found.dedup();
    found
}

fn collect(value: &PickleValue, found: &mut Vec<String>) {
    match value {
        PickleValue::Dict(entries) => entries.values().for_each(|value| collect(value, found)),
        PickleValue::List(items) => items.iter().for_each(|value| collect(value, found)),
        PickleValue::Unsupported(name)
            if !matches!(name.as_str(), "torch.Tensor" | "torch.TypedStorage" | "torch.UntypedStorage") =>
        {
            found.push(name.clone());
        }
        _ => {}
    }
}

/// Plain values as JSON; tensors and other objects are null.
pub(super) fn to_json(value: &PickleValue) -> Value {
    match value {
        PickleValue::Bool(value) => (*value).into(),
        PickleValue::Int(value) => (*value).into(),
        PickleValue::Float(value) => (*value).into(),
        PickleValue::String(value) => value.as_str().into(),
        PickleValue::List(items) => items.iter().map(to_json).collect(),
        PickleValue::Dict(entries) => entries.iter().map(|(key, value)| (key.clone(), to_json(value))).collect(),
        PickleValue::None | PickleValue::Bytes(_) | PickleValue::Unsupported(_) => Value::Null,
    }
}

/// Bytes per chunk, and the overlap of chunks, which is longer than any name.
const CHUNK: usize = 1 << 20;
const OVERLAP: usize = 256;

/// How a pickle names a function: the opcode `c` with module and name on a line each, and from
/// protocol 4 on two short strings and the opcode that joins them.
const GLOBALS: [&str; 2] = [
    r"(?-u)c([A-Za-z_][A-Za-z0-9_.]{0,99})\n([A-Za-z_][A-Za-z0-9_.]{0,99})\n",
    r"(?s-u)\x8c.([A-Za-z_][A-Za-z0-9_.]{0,99})\x94?\x8c.([A-Za-z_][A-Za-z0-9_.]{0,99})\x94?\x93",
];

/// A call whose result the pickle discards leaves no object, but its name is in the file as text.
pub(super) fn call_in(path: &Path) -> std::io::Result<Option<String>> {
    let globals = GLOBALS.map(Regex::new);
    let mut file = File::open(path)?;
    let mut buffer = Vec::with_capacity(CHUNK + OVERLAP);
    loop {
        let kept = buffer.len();
        let read = file.by_ref().take(CHUNK as u64).read_to_end(&mut buffer)?;
        // The patterns are fixed, so they compile.
        for found in globals.iter().flatten().flat_map(|global| global.captures_iter(&buffer)) {
            let text = |group: usize| String::from_utf8_lossy(&found[group]).into_owned();
            let name = format!("{}.{}", text(1), text(2));
            if runs(&name) {
                return Ok(Some(name));
            }
        }
        if read == 0 {
            return Ok(None);
        }
        let from = (kept + read).saturating_sub(OVERLAP);
        buffer.drain(..from);
    }
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn commands_are_told_from_objects() {
        for name in ["os.system", "posix.system", "subprocess.Popen", "builtins.eval", "__builtin__.exec", "torch.load"]
        {
            assert!(runs(name), "{name}");
        }
        for name in
            ["torch.device", "numpy.core.multiarray.scalar", "builtins.slice", "monai.utils.enums.MetricReduction"]
        {
            assert!(!runs(name), "{name}");
        }
    }
}
