//! The identity of a plugin, in a record whose layout never changes. A host reads it from the file
//! before any of the plugin's code runs. The name of its symbol ends in the plugin's crate name, so
//! that several plugins can be linked into one program.

use std::mem::{align_of, offset_of, size_of};

use crate::abi::{
    AbiAlternative, AbiAnswer, AbiArray, AbiCombine, AbiComponentInfo, AbiFault, AbiLayer, AbiMetric, AbiNumber,
    AbiObserved, AbiOption, AbiScalar, AbiState, AbiTensor, AbiText,
};

/// The first bytes of a record.
pub const MAGIC: [u8; 16] = *b"hearth-plugin-id";

/// The version of the loader: the set of symbols and their content. Stage 1 of loading.
pub const LOADER_VERSION: u32 = 1;

/// Raised when the meaning of something in [`abi`](crate::abi) changes but its layout does not, and
/// when the host gets a new method. 2: the batch's numbers and texts, names, statistics of layers,
/// faults of options with their keys. 3: values under keys, attachments. 4: information about the run,
/// events and timers of handlers, texts as attachments, components of more kinds.
pub const ABI_VERSION: u64 = 4;

/// The oldest version that hosts still load. Methods are only added at the end, so a plugin of an
/// older version finds the ones it knows; the layout check compares that part.
pub const OLDEST_ABI: u64 = 2;

/// The symbol that holds [`LOADER_VERSION`], without the crate's name.
pub const LOADER_SYMBOL: &str = "hearth_plugin_loader__";
/// The symbol that holds the [`Identity`], without the crate's name.
pub const IDENTITY_SYMBOL: &str = "hearth_plugin_identity__";
/// The symbol that holds `abi_stable`'s header, without the crate's name.
pub const ROOT_SYMBOL: &str = "hearth_plugin_root__";

/// The version of this crate.
pub const SDK_VERSION: &str = env!("CARGO_PKG_VERSION");
/// The compiler of this build.
pub const RUSTC: &str = env!("HEARTH_PLUGIN_RUSTC");
/// The target of this build.
pub const TARGET: &str = env!("HEARTH_PLUGIN_TARGET");

/// Set if panics unwind. A plugin whose panics end the process is refused.
pub const UNWINDS: u32 = 1;

/// Set if the author has declared the capabilities: those not listed are not used.
pub const DECLARED: u32 = 2;
/// Communicates with other machines.
pub const NETWORK: u32 = 4;
/// Reads or writes files.
pub const FILES: u32 = 8;
/// Starts other programs.
pub const PROGRAMS: u32 = 16;
/// Changes the run: its end, its learning rate, its tensors.
pub const CHANGES_RUN: u32 = 32;

/// Has components that recipes name, of any [kind](crate::component).
pub const COMPONENTS: u32 = 64;

/// The record: bytes and numbers only, no pointers. Its layout is frozen; additions go into a new
/// record.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub struct Identity {
    /// The first bytes: [`MAGIC`].
    pub magic: [u8; 16],
    /// The size of this record in bytes.
    pub size: u32,
    /// The loader's version in the SDK: [`LOADER_VERSION`].
    pub loader: u32,
    /// The hash of layouts in the SDK: [`ABI_HASH`].
    pub abi_hash: u64,
    /// The flags [`UNWINDS`] and [`DECLARED`], and the declared capabilities.
    pub flags: u32,
    /// Always 0.
    pub reserved: u32,
    /// The plugin's name. Like every text here, it is truncated to its length and padded with
    /// zeros.
    pub name: [u8; 64],
    /// The plugin's version.
    pub version: [u8; 32],
    /// The purpose, in one line.
    pub description: [u8; 192],
    /// The crate's name, with which its symbols end.
    pub module: [u8; 96],
    /// The version of the SDK.
    pub sdk: [u8; 32],
    /// The compiler.
    pub rustc: [u8; 64],
    /// The target.
    pub target: [u8; 64],
    /// Always 0.
    pub padding: [u8; 8],
}

const _: () = assert!(size_of::<Identity>() == 592, "the record is frozen");

impl Identity {
    /// The identity of a plugin that is built with this SDK; `needs` are the declared capabilities. A
    /// text that is too long for its field is cut.
    ///
    /// # Panics
    /// If the name of the crate, `module`, has 96 bytes or more.
    pub const fn new(name: &str, version: &str, description: &str, module: &str, unwinds: bool, needs: u32) -> Self {
        assert!(module.len() < 96, "the crate's name is too long for a plugin");
        Self {
            magic: MAGIC,
            size: size_of::<Self>() as u32,
            loader: LOADER_VERSION,
            abi_hash: ABI_HASH,
            flags: needs | if unwinds { UNWINDS } else { 0 },
            reserved: 0,
            name: text(name),
            version: text(version),
            description: text(description),
            module: text(module),
            sdk: text(SDK_VERSION),
            rustc: text(RUSTC),
            target: text(TARGET),
            padding: [0; 8],
        }
    }
}

/// Text in `N` bytes, with at least one zero at the end.
const fn text<const N: usize>(text: &str) -> [u8; N] {
    let bytes = text.as_bytes();
    let mut out = [0; N];
    let mut i = 0;
    while i < bytes.len() && i < N - 1 {
        out[i] = bytes[i];
        i += 1;
    }
    out
}

/// A hash of the layout of every type that crosses the boundary.
pub const ABI_HASH: u64 = abi_hash(ABI_VERSION);

/// The hash of an SDK of another version, provided that no layout has changed since.
pub const fn abi_hash(version: u64) -> u64 {
    let shape = [
        version,
        size_of::<usize>() as u64,
        cfg!(target_endian = "big") as u64,
        // The layout of abi_stable's own types depends on its version.
        0x000b_0003,
        layout(size_of::<AbiState<'_>>(), align_of::<AbiState<'_>>()),
        offset_of!(AbiState<'_>, epoch_length) as u64,
        offset_of!(AbiState<'_>, best_metric) as u64,
        offset_of!(AbiState<'_>, rank) as u64,
        offset_of!(AbiState<'_>, better) as u64,
        offset_of!(AbiState<'_>, pass_length) as u64,
        offset_of!(AbiState<'_>, text) as u64,
        offset_of!(AbiState<'_>, scalars) as u64,
        layout(size_of::<AbiScalar<'_>>(), align_of::<AbiScalar<'_>>()),
        layout(size_of::<AbiText<'_>>(), align_of::<AbiText<'_>>()),
        offset_of!(AbiText<'_>, metrics) as u64,
        offset_of!(AbiText<'_>, times) as u64,
        offset_of!(AbiText<'_>, observed) as u64,
        layout(size_of::<AbiObserved<'_>>(), align_of::<AbiObserved<'_>>()),
        layout(size_of::<AbiNumber<'_>>(), align_of::<AbiNumber<'_>>()),
        layout(size_of::<AbiMetric>(), align_of::<AbiMetric>()),
        layout(size_of::<AbiTensor<'_>>(), align_of::<AbiTensor<'_>>()),
        offset_of!(AbiTensor<'_>, bytes) as u64,
        layout(size_of::<AbiCombine<'_>>(), align_of::<AbiCombine<'_>>()),
        layout(size_of::<AbiAlternative>(), align_of::<AbiAlternative>()),
        offset_of!(AbiAlternative, accept) as u64,
        layout(size_of::<AbiOption>(), align_of::<AbiOption>()),
        layout(size_of::<AbiLayer>(), align_of::<AbiLayer>()),
        offset_of!(AbiLayer, non_finite) as u64,
        layout(size_of::<AbiFault>(), align_of::<AbiFault>()),
        offset_of!(AbiFault, suggestion) as u64,
    ];
    // FNV-1a over the bytes.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut i = 0;
    while i < shape.len() {
        let bytes = shape[i].to_le_bytes();
        let mut j = 0;
        while j < bytes.len() {
            hash = (hash ^ bytes[j] as u64).wrapping_mul(0x0000_0100_0000_01b3);
            j += 1;
        }
        i += 1;
    }
    hash
}

// The types of version 3 are not part of the hash, so that older versions compute the same one.
const _: () = assert!(size_of::<usize>() != 8 || size_of::<AbiArray<'_>>() == 200, "an array keeps its layout");
const _: () = assert!(size_of::<usize>() != 8 || size_of::<AbiComponentInfo>() == 104, "a component's description");
// Nor are those of version 4.
const _: () = assert!(size_of::<usize>() != 8 || size_of::<AbiAnswer>() == 64, "an answer keeps its layout");

const fn layout(size: usize, align: usize) -> u64 {
    (size as u64) << 8 | align as u64
}
