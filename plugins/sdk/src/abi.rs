//! The types that cross between a plugin and its host, for authors of a **host**. Authors of
//! plugins do not need them.
//!
//! Every type here is `repr(C)`, and `abi_stable` checks its layout, so a plugin and its host may
//! be built by different compilers. A change of any type changes
//! [`ABI_HASH`](crate::identity::ABI_HASH) or must raise
//! [`ABI_VERSION`](crate::identity::ABI_VERSION).

#![allow(
    missing_docs,
    non_camel_case_types,
    non_local_definitions,
    reason = "the code that `sabi_trait` generates for these traits cannot carry documentation"
)]
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::used_underscore_binding,
    reason = "its vtables hold raw pointers, and it has its own naming scheme"
)]

use abi_stable::library::RootModule;
use abi_stable::sabi_types::VersionStrings;
use abi_stable::std_types::{RBox, RCowSlice, ROption, RResult, RSlice, RStr, RString, RVec};
use abi_stable::{StableAbi, sabi_trait};

use crate::identity::Identity;

/// A name and a number, borrowed.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct AbiNumber<'a> {
    /// The name.
    pub name: RStr<'a>,
    /// The number.
    pub value: f64,
}

/// A metric and the epoch in which it was last set.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct AbiObserved<'a> {
    /// The metric's name.
    pub name: RStr<'a>,
    /// The epoch, from 1.
    pub epoch: u64,
}

/// A metric, owned.
#[repr(C)]
#[derive(Clone, StableAbi)]
pub struct AbiMetric {
    /// The name.
    pub name: RString,
    /// The value.
    pub value: f64,
}

/// A value of a curve, and its iteration.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct AbiScalar<'a> {
    /// The tag of the curve.
    pub tag: RStr<'a>,
    /// The value.
    pub value: f64,
    /// `state.iteration` when it was published.
    pub iteration: u64,
}

/// The state in every event: its numbers. `text` and `scalars` are set if they changed since the
/// last call.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct AbiState<'a> {
    /// `State::epoch`.
    pub epoch: u64,
    /// `State::iteration`.
    pub iteration: u64,
    /// `State::epoch_iteration`.
    pub epoch_iteration: u64,
    /// `State::max_epochs`.
    pub max_epochs: u64,
    /// `State::seed`.
    pub seed: u64,
    /// `State::epoch_length`.
    pub epoch_length: ROption<u64>,
    /// `State::best_epoch`.
    pub best_epoch: ROption<u64>,
    /// `State::best_metric`.
    pub best_metric: ROption<f64>,
    /// `State::rank`.
    pub rank: u32,
    /// `State::world_size`.
    pub world_size: u32,
    /// `Pass::number`.
    pub pass_number: u64,
    /// `Pass::taken`.
    pub pass_taken: u64,
    /// `Pass::length`.
    pub pass_length: ROption<u64>,
    /// `Pass::open`.
    pub pass_open: bool,
    /// `State::epoch_done`.
    pub epoch_done: bool,
    /// `State::finished`.
    pub finished: bool,
    /// 0: higher is better, 1: lower.
    pub better: u8,
    /// The named parts.
    pub text: ROption<AbiText<'a>>,
    /// The newest value of each curve.
    pub scalars: ROption<RSlice<'a, AbiScalar<'a>>>,
}

/// The named parts of the state.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct AbiText<'a> {
    /// `State::engine`.
    pub engine: RStr<'a>,
    /// `State::key_metric`.
    pub key_metric: ROption<RStr<'a>>,
    /// `State::exception`.
    pub exception: ROption<RStr<'a>>,
    /// `State::metrics`.
    pub metrics: RSlice<'a, AbiNumber<'a>>,
    /// `State::observed`.
    pub observed: RSlice<'a, AbiObserved<'a>>,
    /// `State::times`, in seconds.
    pub times: RSlice<'a, AbiNumber<'a>>,
}

/// A tensor in host memory: borrowed if the host lends it, owned if it was read from a device.
#[repr(C)]
#[derive(Clone, StableAbi)]
pub struct AbiTensor<'a> {
    /// The number of the engine's `DType`.
    pub dtype: u8,
    /// Lengths of the axes, slowest first.
    pub shape: RVec<usize>,
    /// The elements, row-major, in native byte order.
    pub bytes: RCowSlice<'a, u8>,
}

/// The method of combining several predictions.
#[repr(u8)]
#[derive(Clone, StableAbi)]
pub enum AbiCombine<'a> {
    Mean { weights: ROption<RSlice<'a, f64>> },
    Vote { num_classes: ROption<usize> },
}

/// Statistics of one layer's values.
#[repr(C)]
#[derive(Clone, StableAbi)]
pub struct AbiLayer {
    /// The layer's name in the state dict.
    pub name: RString,
    /// Number of values.
    pub count: u64,
    /// Mean of the finite values.
    pub mean: f64,
    /// Standard deviation of the finite values.
    pub std: f64,
    /// Smallest finite value.
    pub min: f64,
    /// Largest finite value.
    pub max: f64,
    /// Number of other values.
    pub non_finite: u64,
}

/// A fault of an option: the dotted key, the message, a suggestion.
#[repr(C)]
#[derive(Clone, StableAbi)]
pub struct AbiFault {
    /// The dotted key; empty for the options as a whole.
    pub path: RString,
    /// The problem.
    pub message: RString,
    /// The name that was probably meant.
    pub suggestion: ROption<RString>,
}

/// One event with its filter. The host evaluates filters that are numbers; a function stays in the
/// plugin.
#[repr(C)]
#[derive(StableAbi)]
pub struct AbiAlternative {
    /// The event's number.
    pub event: u32,
    /// The name of an event of the plugin's own; otherwise empty.
    pub custom_name: RString,
    /// `Filter::every`.
    pub every: ROption<u64>,
    /// `Filter::once`.
    pub once: ROption<RVec<u64>>,
    /// `Filter::before`.
    pub before: ROption<u64>,
    /// `Filter::after`.
    pub after: ROption<u64>,
    /// The plugin's function, if the filter is one.
    pub accept: ROption<AbiAccept_TO<'static, RBox<()>>>,
}

/// The alternatives of one `When`.
#[repr(C)]
#[derive(StableAbi)]
pub struct AbiWhen {
    /// The events with their filters.
    pub alternatives: RVec<AbiAlternative>,
}

/// One option of a plugin.
#[repr(C)]
#[derive(Clone, StableAbi)]
pub struct AbiOption {
    /// The key.
    pub name: RString,
    /// The type in words.
    pub kind: RString,
    /// The default as TOML.
    pub default: ROption<RString>,
    /// Whether it has no default and must be given.
    pub required: bool,
    /// The purpose.
    pub help: RString,
}

/// A filter function of a plugin.
#[sabi_trait]
pub trait AbiAccept: Send + Sync {
    #[sabi(last_prefix_field)]
    fn accept(&self, state: &AbiState<'_>, counter: u64) -> RResult<bool, RString>;
}

/// The host for a plugin: the methods of the engine's `Host`. New methods are added at the end.
#[sabi_trait]
pub trait AbiHost {
    fn terminate(&mut self, why: RStr<'_>);
    fn terminate_epoch(&mut self, why: RStr<'_>);
    fn interrupt(&mut self, why: RStr<'_>);
    fn set_metric(&mut self, name: RStr<'_>, value: f64);
    fn output(&mut self, name: RStr<'_>) -> RResult<f64, RString>;
    fn cases(&self) -> RVec<RString>;
    fn learning_rate(&self) -> ROption<f64>;
    fn set_learning_rate(&mut self, learning_rate: f64) -> RResult<(), RString>;
    fn run(&mut self, engine: RStr<'_>) -> RResult<RVec<AbiMetric>, RString>;
    fn tensor<'a>(&'a mut self, name: RStr<'_>) -> RResult<AbiTensor<'a>, RString>;
    fn put_tensor(&mut self, name: RStr<'_>, tensor: AbiTensor<'_>) -> RResult<(), RString>;
    fn combine(&mut self, inputs: RSlice<'_, RStr<'_>>, how: AbiCombine<'_>, output: RStr<'_>) -> RResult<(), RString>;
    fn save_checkpoint(&mut self, dir: RStr<'_>, tag: RStr<'_>, keep_last: ROption<usize>) -> RResult<(), RString>;
    fn load_checkpoint(&mut self, dir: RStr<'_>) -> RResult<(), RString>;
    fn log(&mut self, level: u8, message: RStr<'_>);
    fn scalar(&mut self, tag: RStr<'_>, value: f64);
    /// `of` is the number of the engine's `NamesOf`.
    fn names(&self, of: u8) -> RVec<RString>;
    fn numbers(&mut self, name: RStr<'_>) -> RResult<RVec<RVec<f64>>, RString>;
    fn texts(&mut self, name: RStr<'_>) -> RResult<RVec<RString>, RString>;
    /// `of` is the number of the engine's `LayerValues`.
    #[sabi(last_prefix_field)]
    fn layer_statistics(&mut self, of: u8) -> RResult<RVec<AbiLayer>, RString>;
    // Since version 3. A host of version 2 lacks these methods; the bodies here are its answers.
    fn remember(&mut self, key: RStr<'_>, _value: RSlice<'_, u8>) -> RResult<(), RString> {
        RResult::RErr(format!("remember {key}: this host is too old").into())
    }
    fn recall(&self, _key: RStr<'_>) -> ROption<RVec<u8>> {
        ROption::RNone
    }
    fn attach_file(&mut self, name: RStr<'_>, _content: RSlice<'_, u8>) -> RResult<(), RString> {
        RResult::RErr(format!("attach {name}: this host is too old").into())
    }
    fn attach_image(&mut self, name: RStr<'_>, _image: AbiTensor<'_>) -> RResult<(), RString> {
        RResult::RErr(format!("attach {name}: this host is too old").into())
    }
    // Since version 4.
    fn attach_text(&mut self, name: RStr<'_>, _text: RStr<'_>) -> RResult<(), RString> {
        RResult::RErr(format!("attach {name}: this host is too old").into())
    }
    fn run_info(&self) -> RResult<RString, RString> {
        RResult::RErr("run_info: this host is too old".into())
    }
    fn fire(&mut self, event: RStr<'_>) -> RResult<(), RString> {
        RResult::RErr(format!("fire {event}: this host is too old").into())
    }
    fn call_after(&mut self, _seconds: f64) -> RResult<(), RString> {
        RResult::RErr("call_after: this host is too old".into())
    }
}

/// Numbers of an image: `hearth_registry`'s `HostArray`.
#[repr(C)]
#[derive(Clone, StableAbi)]
pub struct AbiArray<'a> {
    /// Lengths of the axes, slowest first: `[C, X, Y, Z]` of an image.
    pub shape: RVec<usize>,
    /// The values, row-major.
    pub values: RCowSlice<'a, f32>,
    /// The rows, one after another.
    pub affine: [f64; 16],
}

/// A plugin's description of a component.
#[repr(C)]
#[derive(Clone, StableAbi)]
pub struct AbiComponentInfo {
    /// The number of the registry's `ComponentKind`.
    pub kind: u8,
    /// The name, without the plugin's.
    pub name: RString,
    /// The purpose, in one line.
    pub help: RString,
    /// The options.
    pub options: RVec<AbiOption>,
}

/// The answer of a component's operation.
#[repr(C)]
#[derive(Clone, StableAbi)]
pub struct AbiAnswer {
    /// The arrays, as the operation defines them.
    pub arrays: RVec<AbiArray<'static>>,
    /// The JSON, as the operation defines it; empty if it defines none.
    pub text: RString,
}

/// The network, for a component that runs it.
#[sabi_trait]
pub trait AbiNetwork {
    #[sabi(last_prefix_field)]
    fn run(&mut self, window: AbiArray<'_>) -> RResult<AbiArray<'static>, RString>;
}

/// A component of a plugin. A panic is an `RErr`.
#[sabi_trait]
pub trait AbiComponent: Send + Sync {
    #[sabi(last_prefix_field)]
    fn run(&self, inputs: RSlice<'_, AbiArray<'_>>, text: RStr<'_>) -> RResult<RVec<AbiArray<'static>>, RString>;
    // Since version 4. A plugin of version 3 lacks this method; the body here is its answer.
    fn call(
        &self,
        operation: RStr<'_>,
        _inputs: RSlice<'_, AbiArray<'_>>,
        _text: RStr<'_>,
        _network: ROption<AbiNetwork_TO<'_, abi_stable::sabi_types::RMut<'_, ()>>>,
    ) -> RResult<AbiAnswer, RString> {
        RResult::RErr(format!("{operation}: this plugin is too old, rebuild it").into())
    }
}

/// A plugin's component, passed to the host.
pub type AbiComponentBox = AbiComponent_TO<'static, RBox<()>>;

/// A handler for the host: the methods of the engine's `Handler`. A panic in any of them is an
/// `RErr`.
#[sabi_trait]
pub trait AbiHandler: Send {
    fn name(&self) -> RResult<RString, RString>;
    fn subscriptions(&self) -> RResult<RVec<AbiWhen>, RString>;
    fn on_error(&self) -> u8;
    fn ranks(&self) -> u8;
    fn handle(
        &mut self,
        event: u32,
        state: &AbiState<'_>,
        host: AbiHost_TO<'_, abi_stable::sabi_types::RMut<'_, ()>>,
    ) -> RResult<(), RString>;
    fn save_state(&self) -> RResult<ROption<RVec<u8>>, RString>;
    #[sabi(last_prefix_field)]
    fn load_state(&mut self, state: RSlice<'_, u8>) -> RResult<(), RString>;
    /// The events that it fires. Since version 4.
    fn events(&self) -> RResult<RVec<RString>, RString> {
        RResult::ROk(RVec::new())
    }
}

/// A plugin's handler, passed to the host.
pub type AbiHandlerBox = AbiHandler_TO<'static, RBox<()>>;

/// The functions of a plugin.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = PluginRoot_Ref, prefix_fields = PluginRoot_Prefix)))]
pub struct PluginRoot {
    /// Lists the options.
    pub options: extern "C" fn() -> RResult<RVec<AbiOption>, RString>,
    /// Creates a handler from options in TOML text.
    #[sabi(last_prefix_field)]
    pub create: extern "C" fn(RStr<'_>) -> RResult<AbiHandlerBox, AbiFault>,
    /// Lists the components. Since version 3, like the next one.
    pub components: extern "C" fn() -> RResult<RVec<AbiComponentInfo>, RString>,
    /// Creates a component, by its name, from options in TOML text.
    pub make: extern "C" fn(RStr<'_>, RStr<'_>) -> RResult<AbiComponentBox, AbiFault>,
}

/// A plugin that is linked into a program; [`export_plugin!`](crate::export_plugin!) defines it in
/// its crate.
#[derive(Clone, Copy)]
pub struct Linked {
    /// The identity, which is also in its library.
    pub identity: &'static Identity,
    /// The plugin's functions.
    pub root: fn() -> PluginRoot_Ref,
}

impl RootModule for PluginRoot_Ref {
    abi_stable::declare_root_module_statics! {PluginRoot_Ref}
    const BASE_NAME: &'static str = "hearth_plugin";
    const NAME: &'static str = "hearth_plugin";
    const VERSION_STRINGS: VersionStrings = abi_stable::package_version_strings!();
}
