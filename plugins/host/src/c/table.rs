//! `hearth_plugin.h` in Rust: the tables in C's layout. A test compares sizes and offsets with
//! those of a C compiler.

use std::ffi::{c_char, c_void};

/// The version of `hearth_plugin.h` of this host, which is the newest that it loads.
pub const ABI: u32 = 2;
/// The first bytes of the record of a plugin in C.
pub const MAGIC: [u8; 16] = *b"hearth-plugin-c\0";
/// The oldest version that it loads.
pub const OLDEST: u32 = 1;

/// The return value of functions that succeed.
pub const OK: i32 = 0;
/// The return value of functions that fail.
pub const FAILED: i32 = 1;

/// `hearth_call`.
#[repr(C)]
pub struct Call {
    pub size: usize,
    pub abi: u32,
    pub context: *mut c_void,
    pub library: *const c_char,
    pub fail: extern "C" fn(*const Call, *const c_char) -> i32,
    pub give: extern "C" fn(*const Call, *const c_void, usize),
}

/// `hearth_when`.
#[repr(C)]
pub struct When {
    pub size: usize,
    pub event: *const c_char,
    pub every: u64,
    pub after: u64,
    pub before: u64,
    pub once: *const u64,
    pub once_count: usize,
    pub custom: i32,
}

/// `hearth_setup`.
#[repr(C)]
pub struct Setup {
    pub size: usize,
    pub abi: u32,
    pub context: *mut c_void,
    pub options: *const c_char,
    pub fail: extern "C" fn(*const Setup, *const c_char, *const c_char) -> i32,
    pub integer: extern "C" fn(*const Setup, *const c_char, *mut i64) -> i32,
    pub number: extern "C" fn(*const Setup, *const c_char, *mut f64) -> i32,
    pub boolean: extern "C" fn(*const Setup, *const c_char, *mut i32) -> i32,
    pub text: extern "C" fn(*const Setup, *const c_char) -> *const c_char,
    pub listen: extern "C" fn(*const Setup, *const When) -> i32,
    pub on_error: extern "C" fn(*const Setup, i32),
    pub ranks: extern "C" fn(*const Setup, i32),
    pub fires: extern "C" fn(*const Setup, *const c_char) -> i32,
}

/// `hearth_event`.
#[repr(C)]
pub struct HappenedEvent {
    pub size: usize,
    pub id: u32,
    pub rank: u32,
    pub world_size: u32,
    pub finished: u32,
    pub name: *const c_char,
    pub engine: *const c_char,
    pub epoch: u64,
    pub iteration: u64,
    pub epoch_iteration: u64,
    pub max_epochs: u64,
    pub epoch_length: u64,
    pub seed: u64,
    pub best_epoch: u64,
    pub best_metric: f64,
    pub key_metric: *const c_char,
    pub exception: *const c_char,
}

/// `hearth_tensor`.
#[repr(C)]
pub struct Tensor {
    pub size: usize,
    pub dtype: i32,
    pub dimensions: u32,
    pub shape: *const usize,
    pub data: *const c_void,
    pub bytes: usize,
}

/// A name or a message.
pub type Text = *const c_char;
/// The table of the host, as its functions get it.
pub type This = *const Host;

/// `hearth_host`.
#[repr(C)]
pub struct Host {
    pub size: usize,
    pub abi: u32,
    pub context: *mut c_void,
    pub fail: extern "C" fn(This, Text) -> i32,
    pub error: extern "C" fn(This) -> Text,
    pub log: extern "C" fn(This, i32, Text),
    pub terminate: extern "C" fn(This, Text),
    pub terminate_epoch: extern "C" fn(This, Text),
    pub interrupt: extern "C" fn(This, Text),
    pub metric: extern "C" fn(This, Text, *mut f64) -> i32,
    pub set_metric: extern "C" fn(This, Text, f64),
    pub scalar: extern "C" fn(This, Text, f64),
    pub state: extern "C" fn(This) -> Text,
    pub output: extern "C" fn(This, Text, *mut f64) -> i32,
    pub learning_rate: extern "C" fn(This, *mut f64) -> i32,
    pub set_learning_rate: extern "C" fn(This, f64) -> i32,
    pub run: extern "C" fn(This, Text) -> Text,
    pub save_checkpoint: extern "C" fn(This, Text, Text, u64) -> i32,
    pub load_checkpoint: extern "C" fn(This, Text) -> i32,
    pub names: extern "C" fn(This, i32) -> Text,
    pub cases: extern "C" fn(This) -> Text,
    pub numbers: extern "C" fn(This, Text) -> Text,
    pub texts: extern "C" fn(This, Text) -> Text,
    pub tensor: extern "C" fn(This, Text, *mut Tensor) -> i32,
    pub put_tensor: extern "C" fn(This, Text, *const Tensor) -> i32,
    pub combine: extern "C" fn(This, *const Text, usize, Text, Text) -> i32,
    pub layer_statistics: extern "C" fn(This, i32) -> Text,
    pub remember: extern "C" fn(This, Text, *const c_void, usize) -> i32,
    pub recall: extern "C" fn(This, Text, *mut *const c_void, *mut usize) -> i32,
    pub attach_file: extern "C" fn(This, Text, *const c_void, usize) -> i32,
    pub attach_image: extern "C" fn(This, Text, *const Tensor) -> i32,
    pub attach_text: extern "C" fn(This, Text, Text) -> i32,
    pub run_info: extern "C" fn(This) -> Text,
    pub fire: extern "C" fn(This, Text) -> i32,
    pub call_after: extern "C" fn(This, f64) -> i32,
}

/// `hearth_array`.
#[repr(C)]
pub struct Array {
    pub size: usize,
    pub dimensions: u32,
    pub shape: *const usize,
    pub values: *const f32,
    pub affine: [f64; 16],
}

/// `hearth_work`.
#[repr(C)]
pub struct Work {
    pub size: usize,
    pub abi: u32,
    pub context: *mut c_void,
    pub text: Text,
    pub inputs: *const Array,
    pub count: usize,
    pub fail: extern "C" fn(*const Work, Text) -> i32,
    pub give: extern "C" fn(*const Work, *const Array) -> i32,
    pub say: extern "C" fn(*const Work, Text) -> i32,
    pub network: Option<extern "C" fn(*const Work, *const Array, *mut Array) -> i32>,
}

/// `hearth_plugin`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Functions {
    pub size: usize,
    pub options: Option<unsafe extern "C" fn(*const Call) -> i32>,
    pub create: Option<unsafe extern "C" fn(*const Setup, *mut *mut c_void) -> i32>,
    pub destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    pub handle: Option<unsafe extern "C" fn(*mut c_void, *const HappenedEvent, *const Host) -> i32>,
    pub save: Option<unsafe extern "C" fn(*mut c_void, *const Call) -> i32>,
    pub load: Option<unsafe extern "C" fn(*mut c_void, *const c_void, usize, *const Call) -> i32>,
    pub components: Option<unsafe extern "C" fn(*const Call) -> i32>,
    pub make: Option<unsafe extern "C" fn(*const Setup, Text, *mut *mut c_void) -> i32>,
    pub compute: Option<unsafe extern "C" fn(*mut c_void, *const Work) -> i32>,
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
    pub call: Option<unsafe extern "C" fn(*mut c_void, Text, *const Work) -> i32>,
}

impl Functions {
    /// The size of the table in version 1, which ends with `release`.
    pub const FIRST: usize = std::mem::offset_of!(Functions, call);

    /// The table of a plugin. Members that an older plugin lacks are null.
    ///
    /// # Safety
    /// The table begins with its size, which is at least [`Functions::FIRST`], and is that long.
    pub unsafe fn received(table: *const Functions) -> Functions {
        let mut whole = std::mem::MaybeUninit::<Functions>::zeroed();
        // SAFETY: the caller promises the size, and the copy is not longer than either. All members are a
        // number or an optional function, for which zeros are valid.
        unsafe {
            let size = table.cast::<usize>().read().min(size_of::<Functions>());
            std::ptr::copy_nonoverlapping(table.cast::<u8>(), whole.as_mut_ptr().cast::<u8>(), size);
            whole.assume_init()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::mem::offset_of;
    use std::process::Command;

    use super::*;
    use crate::c::HEADER;

    /// Sizes and offsets of one table: the C expressions and the values in Rust.
    macro_rules! layout {
        ($to:ident, $Rust:ident as $c:literal: $($member:ident),*) => {
            $to.push((format!("sizeof({})", $c), size_of::<$Rust>()));
            $($to.push((format!("offsetof({}, {})", $c, stringify!($member)), offset_of!($Rust, $member)));)*
        };
    }

    #[test]
    fn the_header_and_the_host_mean_the_same() {
        let mut all = Vec::new();
        layout!(all, Call as "hearth_call": size, abi, context, library, fail, give);
        layout!(all, When as "hearth_when": size, event, every, after, before, once, once_count, custom);
        layout!(all, Setup as "hearth_setup": size, abi, context, options, fail, integer, number, boolean, text, listen,
            on_error, ranks, fires);
        layout!(all, HappenedEvent as "hearth_event": size, id, rank, world_size, finished, name, engine, epoch, iteration,
            epoch_iteration, max_epochs, epoch_length, seed, best_epoch, best_metric, key_metric, exception);
        layout!(all, Tensor as "hearth_tensor": size, dtype, dimensions, shape, data, bytes);
        layout!(all, Host as "hearth_host": size, abi, context, fail, error, log, terminate, terminate_epoch, interrupt,
            metric, set_metric, scalar, state, output, learning_rate, set_learning_rate, run, save_checkpoint,
            load_checkpoint, names, cases, numbers, texts, tensor, put_tensor, combine, layer_statistics, remember, recall,
            attach_file, attach_image, attach_text, run_info, fire, call_after);
        layout!(all, Functions as "hearth_plugin": size, options, create, destroy, handle, save, load, components, make, compute,
            release, call);
        layout!(all, Array as "hearth_array": size, dimensions, shape, values, affine);
        layout!(all, Work as "hearth_work": size, abi, context, text, inputs, count, fail, give, say, network);
        type Record = hearth_plugin::identity::Identity;
        layout!(all, Record as "hearth_identity": magic, size, name, version, description, flags);
        all.push(("offsetof(hearth_identity, compiler)".into(), offset_of!(Record, rustc)));
        all.push(("HEARTH_ABI".into(), ABI as usize));

        let folder = tempfile::tempdir().unwrap();
        let mut source = "#include \"hearth_plugin.h\"\n#include <stdio.h>\nint main(void) {\n".to_owned();
        all.iter().for_each(|(expression, _)| {
            writeln!(source, "printf(\"{expression} = %zu\\n\", (size_t)({expression}));").unwrap();
        });
        std::fs::write(folder.path().join("layout.c"), source + "return 0;\n}\n").unwrap();
        std::fs::write(folder.path().join("hearth_plugin.h"), HEADER).unwrap();
        let program = folder.path().join("layout");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let built = Command::new(compiler).arg("layout.c").arg("-o").arg(&program).current_dir(folder.path()).output();
        let built = built.expect("a C compiler, which building Hearth needs, too");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let said = Command::new(program).output().unwrap().stdout;
        let expected: String = all.iter().map(|(expression, value)| format!("{expression} = {value}\n")).collect();
        assert_eq!(String::from_utf8_lossy(&said), expected);
    }
}
