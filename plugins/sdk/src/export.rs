//! Turns a handler into a plugin: [`export_plugin!`](crate::export_plugin!) and the code it uses.

use std::any::Any;

use abi_stable::erased_types::TD_Opaque;
use abi_stable::library::{CheckTypeLayout, LibHeader, RootModuleResult};
use abi_stable::prefix_type::WithMetadata;
use abi_stable::sabi_types::RMut;
use abi_stable::std_types::{ROption, RResult, RSlice, RStr, RString, RVec};
use hearth_engine::{Handler, HandlerError};
use hearth_registry::Fault;
use hearth_registry::component::{HostArray, Network};

use crate::abi::{
    AbiAnswer, AbiArray, AbiComponent, AbiComponent_TO, AbiComponentBox, AbiComponentInfo, AbiFault, AbiHandlerBox,
    AbiNetwork_TO, AbiOption, Linked, PluginRoot, PluginRoot_Ref,
};
use crate::component::{ComponentInfo, Made};
use crate::guard::guard;
use crate::guest::send_handler;
use crate::identity::Identity;
use crate::options::{OptionInfo, PluginOptions};
use crate::view;

/// Makes this crate a plugin. Takes the plugin's name, the type of its options, and the function
/// that builds the handler from them.
///
/// `needs: [NETWORK, FILES, PROGRAMS, CHANGES_RUN]` at the end declares the plugin's capabilities
/// beyond reading the run's numbers and logging; `needs: []` declares none. `hearth plugin info`
/// prints them, and `install` asks the user to confirm them.
///
/// The function returns a handler, or a `Result` of one; an error that is a [`Fault`] names the
/// option. The version and the description come from `Cargo.toml`. Call the macro once, at the root
/// of a crate whose `crate-type` is `["cdylib", "rlib"]`. Several plugin crates can also be linked
/// into one program: the symbols end in the crate's name, and each crate has a `PLUGIN`, which a
/// host can use without a file ([`Linked`](crate::abi::Linked)).
///
/// `components: { ... }` after `needs` adds components, as
/// [`export_components!`](crate::export_components!) lists them.
///
/// ```
/// # use hearth_plugin::{Context, Event, Handler, HandlerError, NoOptions, When};
/// # struct Quiet;
/// # impl Handler for Quiet {
/// #     fn name(&self) -> &str { "quiet" }
/// #     fn subscriptions(&self) -> Vec<When> { Vec::new() }
/// #     fn handle(&mut self, _: Event, _: &mut Context<'_>) -> Result<(), HandlerError> { Ok(()) }
/// # }
/// hearth_plugin::export_plugin!("quiet", NoOptions, |_| Quiet);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! export_plugin {
    ($name:expr, $Options:ty, $new:expr $(,)?) => {
        $crate::__export_handler!($name, $Options, $new, 0, {});
    };
    ($name:expr, $Options:ty, $new:expr, needs: [$($need:ident),* $(,)?] $(,)?) => {
        $crate::__export_handler!($name, $Options, $new, $crate::identity::DECLARED $(| $crate::identity::$need)*, {});
    };
    (
        $name:expr, $Options:ty, $new:expr, needs: [$($need:ident),* $(,)?],
        components: { $($components:tt)+ } $(,)?
    ) => {
        $crate::__export_handler!(
            $name,
            $Options,
            $new,
            $crate::identity::DECLARED | $crate::identity::COMPONENTS $(| $crate::identity::$need)*,
            { $crate::__components! { $($components)+ } }
        );
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export_handler {
    ($name:expr, $Options:ty, $new:expr, $needs:expr, { $($components:tt)* }) => {
        $crate::__export! {
            $name,
            $needs,
            {
                fn options() -> ::std::vec::Vec<$crate::OptionInfo> {
                    <$Options as $crate::PluginOptions>::list()
                }

                fn create(
                    options: &str,
                ) -> ::core::result::Result<::std::boxed::Box<dyn $crate::Handler>, $crate::Fault> {
                    $crate::__private::build::<$Options, _, _>(options, $new)
                }

                $($components)*
            }
        }
    };
}

/// The symbols of a plugin, and the functions behind them.
#[doc(hidden)]
#[macro_export]
macro_rules! __export {
    ($name:expr, $needs:expr, { $($functions:tt)* }) => {
        #[doc(hidden)]
        pub static PLUGIN: $crate::abi::Linked = {
            struct Exported;

            impl $crate::__private::Plugin for Exported {
                $($functions)*
            }

            #[unsafe(export_name = ::core::concat!("hearth_plugin_loader__", ::core::module_path!()))]
            pub static LOADER: u32 = $crate::identity::LOADER_VERSION;

            #[unsafe(export_name = ::core::concat!("hearth_plugin_identity__", ::core::module_path!()))]
            pub static IDENTITY: $crate::identity::Identity = $crate::identity::Identity::new(
                $name,
                ::core::env!("CARGO_PKG_VERSION"),
                ::core::env!("CARGO_PKG_DESCRIPTION"),
                ::core::module_path!(),
                ::core::cfg!(panic = "unwind"),
                $needs,
            );

            #[unsafe(export_name = ::core::concat!("hearth_plugin_root__", ::core::module_path!()))]
            pub static ROOT: $crate::__private::LibHeader = $crate::__private::header::<Exported>();

            $crate::__private::linked::<Exported>(&IDENTITY)
        };
    };
}

/// The trait that `export_plugin!` implements.
pub trait Plugin: 'static {
    /// Lists the options.
    fn options() -> Vec<OptionInfo>;
    /// Creates a handler from options in TOML text.
    fn create(options: &str) -> Result<Box<dyn Handler>, Fault>;
    /// Lists the components.
    fn components() -> Vec<ComponentInfo> {
        Vec::new()
    }
    /// Creates a component, by its name, from options in TOML text.
    fn make(name: &str, options: &str) -> Result<Made, Fault> {
        let _ = options;
        Err(Fault::new(format!("there is no component {name}")))
    }
}

/// The return type of the function given to `export_plugin!`. The marker distinguishes the two
/// cases.
pub trait IntoHandler<Marker> {
    /// The handler, or the reason for its absence.
    fn into_handler(self) -> Result<Box<dyn Handler>, Fault>;
}

/// Marks a function that always succeeds.
pub struct Always;
/// Marks a function that may fail.
pub struct Perhaps;

impl<H: Handler + 'static> IntoHandler<Always> for H {
    fn into_handler(self) -> Result<Box<dyn Handler>, Fault> {
        Ok(Box::new(self))
    }
}

impl<H: Handler + 'static, E: Into<HandlerError> + 'static> IntoHandler<Perhaps> for Result<H, E> {
    fn into_handler(self) -> Result<Box<dyn Handler>, Fault> {
        self.map(|handler| Box::new(handler) as Box<dyn Handler>).map_err(fault_of)
    }
}

/// An error of a constructor: a fault keeps its key.
fn fault_of<E: Into<HandlerError> + 'static>(error: E) -> Fault {
    let mut slot = Some(error);
    let keyed = (&mut slot as &mut dyn Any).downcast_mut::<Option<Fault>>().and_then(Option::take);
    let plain = || slot.map(|error| Fault::new(error.into().message()));
    keyed.or_else(plain).unwrap_or_else(|| Fault::new("no reason was given"))
}

/// Reads the options and creates the handler.
pub fn build<O: PluginOptions, R: IntoHandler<M>, M>(
    options: &str,
    new: impl FnOnce(O) -> R,
) -> Result<Box<dyn Handler>, Fault> {
    new(O::from_toml(options)?).into_handler()
}

/// The root module of a plugin, which `abi_stable` checks.
pub const fn header<P: Plugin>() -> LibHeader {
    // SAFETY: `root::<P>` returns a `PluginRoot_Ref` made by `root_module`; that is the type given
    // here.
    unsafe { LibHeader::from_constructor::<PluginRoot_Ref>(root::<P>, CheckTypeLayout::Yes) }
}

/// The plugin for a program that links it.
pub const fn linked<P: Plugin>(identity: &'static Identity) -> Linked {
    Linked { identity, root: Root::<P>::module }
}

extern "C" fn root<P: Plugin>() -> RootModuleResult {
    abi_stable::library::__call_root_module_loader(Root::<P>::module)
}

/// Holds the functions of one plugin as a constant, so that they are `'static`.
struct Root<P>(std::marker::PhantomData<P>);

impl<P: Plugin> Root<P> {
    const MODULE: &'static WithMetadata<PluginRoot> = &WithMetadata::new(PluginRoot {
        options: options::<P>,
        create: create::<P>,
        components: components::<P>,
        make: make::<P>,
    });

    fn module() -> PluginRoot_Ref {
        PluginRoot_Ref(Self::MODULE.static_as_prefix())
    }
}

fn send_option(option: OptionInfo) -> AbiOption {
    AbiOption {
        name: option.name.into(),
        kind: option.kind.into(),
        default: option.default.map(RString::from).into(),
        required: option.required,
        help: option.help.into(),
    }
}

extern "C" fn options<P: Plugin>() -> RResult<RVec<AbiOption>, RString> {
    let list = guard(|| P::options().into_iter().map(send_option).collect::<RVec<_>>());
    list.map_err(RString::from).into()
}

extern "C" fn components<P: Plugin>() -> RResult<RVec<AbiComponentInfo>, RString> {
    let send = |info: ComponentInfo| AbiComponentInfo {
        kind: info.kind as u8,
        name: info.name.into(),
        help: info.help.into(),
        options: info.options.into_iter().map(send_option).collect(),
    };
    let list = guard(|| P::components().into_iter().map(send).collect::<RVec<_>>());
    list.map_err(RString::from).into()
}

extern "C" fn make<P: Plugin>(name: RStr<'_>, options: RStr<'_>) -> RResult<AbiComponentBox, AbiFault> {
    match guard(|| P::make(name.as_str(), options.as_str())) {
        Ok(Ok(made)) => RResult::ROk(AbiComponent_TO::from_value(GuestComponent(made), TD_Opaque)),
        Ok(Err(fault)) => RResult::RErr(view::send_fault(fault)),
        Err(panic) => RResult::RErr(view::send_fault(Fault::new(panic))),
    }
}

/// A component whose panics are caught.
struct GuestComponent(Made);

impl AbiComponent for GuestComponent {
    fn run(&self, inputs: RSlice<'_, AbiArray<'_>>, text: RStr<'_>) -> RResult<RVec<AbiArray<'static>>, RString> {
        let made = guard(|| {
            let inputs = inputs.iter().map(view::receive_array).collect::<Result<Vec<_>, _>>();
            let made = inputs.map_err(HandlerError::new).and_then(|inputs| self.0.run(&inputs, text.as_str()))?;
            Ok::<_, HandlerError>(made.into_iter().map(view::send_array).collect::<RVec<_>>())
        });
        match made {
            Ok(Ok(made)) => RResult::ROk(made),
            Ok(Err(error)) => RResult::RErr(error.message().into()),
            Err(panic) => RResult::RErr(panic.into()),
        }
    }

    fn call(
        &self,
        operation: RStr<'_>,
        inputs: RSlice<'_, AbiArray<'_>>,
        text: RStr<'_>,
        network: ROption<AbiNetwork_TO<'_, RMut<'_, ()>>>,
    ) -> RResult<AbiAnswer, RString> {
        let made = guard(|| {
            let inputs = inputs.iter().map(view::receive_array).collect::<Result<Vec<_>, _>>();
            let inputs = inputs.map_err(HandlerError::new)?;
            let mut network = network.into_option();
            let mut run = network.as_mut().map(|network| {
                |window: HostArray<'_>| -> Result<HostArray<'static>, String> {
                    let output = network.run(view::lend_array(&window)).into_result().map_err(RString::into_string)?;
                    view::own_array(&output)
                }
            });
            let run = run.as_mut().map(|run| run as &mut Network<'_>);
            self.0.call(operation.as_str(), &inputs, text.as_str(), run).map(view::send_answer)
        });
        match made {
            Ok(Ok(answer)) => RResult::ROk(answer),
            Ok(Err(error)) => RResult::RErr(error.message().into()),
            Err(panic) => RResult::RErr(panic.into()),
        }
    }
}

extern "C" fn create<P: Plugin>(options: RStr<'_>) -> RResult<AbiHandlerBox, AbiFault> {
    match guard(|| P::create(options.as_str())) {
        Ok(Ok(handler)) => RResult::ROk(send_handler(handler)),
        Ok(Err(fault)) => RResult::RErr(view::send_fault(fault)),
        Err(panic) => RResult::RErr(view::send_fault(Fault::new(panic))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_keeps_its_key_and_other_errors_their_words() {
        let keyed = Fault::at("epochs", "`epochs` is 0").meaning(Some("1"));
        assert_eq!(fault_of(keyed.clone()), keyed);
        assert_eq!(fault_of(HandlerError::new("no luck")), Fault::new("no luck"));
        assert_eq!(fault_of(std::io::Error::other("the disk is full")), Fault::new("the disk is full"));
    }

    #[test]
    fn a_fault_arrives_as_it_was_sent() {
        for fault in [Fault::at("a.1.b", "wrong").meaning(Some("right")), Fault::new("wrong")] {
            assert_eq!(view::receive_fault(view::send_fault(fault.clone())), fault);
        }
    }
}
