//! Components: transforms, metrics and readers that recipes name as `PLUGIN.NAME`.
//!
//! ```
//! use hearth_plugin::component::{Array, Transform};
//! use hearth_plugin::{Fault, HandlerError, export_components, options};
//!
//! options! {
//!     /// Options of `Scale`.
//!     pub struct ScaleOptions {
//!         /// Values are multiplied by it.
//!         factor: f64 = 2.0,
//!     }
//! }
//!
//! /// Multiplies an image.
//! pub struct Scale(f32);
//!
//! impl Scale {
//!     fn new(options: ScaleOptions) -> Result<Self, Fault> {
//!         if options.factor == 0.0 {
//!             return Err(Fault::at("factor", "`factor` is 0, which leaves nothing of the image"));
//!         }
//!         Ok(Self(options.factor as f32))
//!     }
//! }
//!
//! impl Transform for Scale {
//!     fn apply(&self, image: Array<'_>) -> Result<Array<'static>, HandlerError> {
//!         let values = image.values.iter().map(|value| value * self.0).collect::<Vec<f32>>();
//!         Ok(Array { values: values.into(), shape: image.shape, affine: image.affine })
//!     }
//! }
//!
//! export_components!("mine", needs: [], {
//!     "Multiplies an image." transform Scale(ScaleOptions) = Scale::new;
//! });
//! # fn main() {
//! let image = Array::new(vec![1, 1, 1, 2], vec![1.0, 2.5]).unwrap();
//! let scale = Scale::new(ScaleOptions { factor: 2.0 }).unwrap();
//! assert_eq!(*scale.apply(image).unwrap().values, [2.0, 5.0]);
//! # }
//! ```
//!
//! In a recipe: `{ name = "mine.Scale", keys = ["image"], factor = 0.5 }`.

use std::path::Path;

use hearth_engine::{Context, Event, Handler, HandlerError, When};
pub use hearth_registry::component::{ComponentKind, HostArray as Array, IDENTITY};

use crate::options::OptionInfo;

/// A transform: a step of `transforms` or `post`.
pub trait Transform: Send + Sync {
    /// Maps an image `[C, X, Y, Z]` to one on the same grid; the number of channels may change. The
    /// same image must yield the same result, because caches keep it.
    ///
    /// # Errors
    /// The problem of the image; the program adds case, file and step.
    fn apply(&self, image: Array<'_>) -> Result<Array<'static>, HandlerError>;
}

/// A metric.
pub trait Metric: Send + Sync {
    /// Returns a row of numbers for an item, of the same length for all items: one per class, or
    /// one. NaN if there is nothing to measure. `pred` and `label` are `[C, X, Y, Z]`; their affine
    /// has the voxel size.
    ///
    /// # Errors
    /// The problem of the input.
    fn measure(&self, pred: Array<'_>, label: Array<'_>) -> Result<Vec<f32>, HandlerError>;
}

/// A reader.
pub trait Reader: Send + Sync {
    /// Reads the image `[C, X, Y, Z]` of a file. Check the file's lengths before memory is
    /// allocated for them.
    ///
    /// # Errors
    /// If the file is missing, damaged or of another kind.
    fn read(&self, path: &Path) -> Result<Array<'static>, HandlerError>;
}

/// A component that was built from its options.
pub enum Made {
    /// A transform.
    Transform(Box<dyn Transform>),
    /// A metric.
    Metric(Box<dyn Metric>),
    /// A reader.
    Reader(Box<dyn Reader>),
}

/// A plugin's description of one of its components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentInfo {
    /// The kind.
    pub kind: ComponentKind,
    /// The name, without the plugin's.
    pub name: String,
    /// The purpose, in one line.
    pub help: String,
    /// The options.
    pub options: Vec<OptionInfo>,
}

/// For [`export_components!`](crate::export_components!): a transform.
#[doc(hidden)]
pub fn transform<T: Transform + 'static>(made: T) -> Made {
    Made::Transform(Box::new(made))
}

/// For [`export_components!`](crate::export_components!): a metric.
#[doc(hidden)]
pub fn metric<T: Metric + 'static>(made: T) -> Made {
    Made::Metric(Box::new(made))
}

/// For [`export_components!`](crate::export_components!): a reader.
#[doc(hidden)]
pub fn reader<T: Reader + 'static>(made: T) -> Made {
    Made::Reader(Box::new(made))
}

/// The kinds, under the words of [`export_components!`](crate::export_components!).
#[doc(hidden)]
#[allow(non_upper_case_globals, reason = "the words of a macro name them")]
pub mod kinds {
    use super::ComponentKind;

    pub const transform: ComponentKind = ComponentKind::Transform;
    pub const metric: ComponentKind = ComponentKind::Metric;
    pub const reader: ComponentKind = ComponentKind::Reader;
}

impl Made {
    /// The function that the host calls.
    pub(crate) fn run(&self, inputs: &[Array<'_>], text: &str) -> Result<Vec<Array<'static>>, HandlerError> {
        let lacking = || HandlerError::new("the host passed too few arrays");
        Ok(match (self, inputs) {
            (Made::Transform(transform), [image, ..]) => vec![transform.apply(image.clone())?],
            (Made::Metric(metric), [pred, label, ..]) => {
                let row = metric.measure(pred.clone(), label.clone())?;
                vec![Array { shape: vec![row.len()], values: row.into(), affine: IDENTITY }]
            }
            (Made::Reader(reader), _) => vec![reader.read(Path::new(text))?],
            _ => return Err(lacking()),
        })
    }
}

/// The handler of a plugin that has only components.
#[doc(hidden)]
pub struct Idle(pub &'static str);

impl Handler for Idle {
    fn name(&self) -> &str {
        self.0
    }

    fn subscriptions(&self) -> Vec<When> {
        Vec::new()
    }

    fn handle(&mut self, _: Event, _: &mut Context<'_>) -> Result<(), HandlerError> {
        Ok(())
    }
}

/// Makes this crate a plugin of components. Takes the plugin's name, its capabilities (as
/// [`export_plugin!`](crate::export_plugin!)), and for each component: its purpose in one line, its
/// kind (`transform`, `metric`, `reader`), its name, the type of its options, and a function that
/// builds it from them, which returns `Ok` with a [`Transform`], [`Metric`] or [`Reader`], or a
/// [`Fault`](crate::Fault).
#[macro_export]
macro_rules! export_components {
    ($name:expr, needs: [$($need:ident),* $(,)?], {
        $($help:literal $kind:ident $Name:ident ($Options:ty) = $new:expr;)+
    }) => {
        $crate::__export! {
            $name,
            $crate::identity::DECLARED | $crate::identity::COMPONENTS $(| $crate::identity::$need)*,
            {
                fn options() -> ::std::vec::Vec<$crate::OptionInfo> {
                    ::std::vec::Vec::new()
                }

                fn create(
                    _: &str,
                ) -> ::core::result::Result<::std::boxed::Box<dyn $crate::Handler>, $crate::Fault> {
                    ::core::result::Result::Ok(::std::boxed::Box::new($crate::component::Idle($name)))
                }

                fn components() -> ::std::vec::Vec<$crate::component::ComponentInfo> {
                    ::std::vec![$($crate::component::ComponentInfo {
                        kind: $crate::component::kinds::$kind,
                        name: ::core::stringify!($Name).to_owned(),
                        help: ($help).to_owned(),
                        options: <$Options as $crate::PluginOptions>::list(),
                    }),+]
                }

                fn make(
                    name: &str,
                    options: &str,
                ) -> ::core::result::Result<$crate::component::Made, $crate::Fault> {
                    $(if name == ::core::stringify!($Name) {
                        let options = <$Options as $crate::PluginOptions>::from_toml(options)?;
                        return $new(options).map($crate::component::$kind);
                    })+
                    ::core::result::Result::Err($crate::Fault::new(::std::format!("there is no component {name}")))
                }
            }
        }
    };
}
