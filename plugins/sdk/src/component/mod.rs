//! Components: parts that recipes name as `PLUGIN.NAME`, each of a kind: [`Transform`],
//! [`MapTransform`], [`Metric`], [`Loss`], [`Reader`], [`Writer`], [`Layout`], [`Sampler`], [`Schedule`],
//! [`Inferer`].
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

mod draw;
mod inferer;
mod layout;
mod loss;
mod made;
mod map_transform;
mod sampler;
mod schedule;
mod writer;

use std::path::Path;

use hearth_engine::{Context, Event, Handler, HandlerError, When};
pub use hearth_registry::component::texts::{FieldValue, Inversion, LayoutAnswer as Cases, LayoutCase as Case};
pub use hearth_registry::component::{ComponentKind, HostArray as Array, IDENTITY, Network};

pub use self::draw::Draw;
pub use self::inferer::Inferer;
pub use self::layout::Layout;
pub use self::loss::{Loss, Valued};
pub use self::made::Made;
#[doc(hidden)]
pub use self::made::kinds;
pub use self::map_transform::{MapTransform, Mapped};
pub use self::sampler::{Epoch, Sampler};
pub use self::schedule::{Schedule, Step};
pub use self::writer::Writer;
use crate::options::OptionInfo;

/// A transform: a step of `transforms` or `post`. The [module](self) has an example.
pub trait Transform: Send + Sync {
    /// Maps an image `[C, X, Y, Z]` to one on the same grid; the number of channels may change. The
    /// same image must yield the same result, because caches keep it.
    ///
    /// # Errors
    /// The problem of the image; the program adds case, file and step.
    fn apply(&self, image: Array<'_>) -> Result<Array<'static>, HandlerError>;
}

/// A metric.
///
/// ```
/// use hearth_plugin::HandlerError;
/// use hearth_plugin::component::{Array, Metric};
///
/// /// The share of voxels with the right value.
/// struct Accuracy;
///
/// impl Metric for Accuracy {
///     fn measure(&self, pred: Array<'_>, label: Array<'_>) -> Result<Vec<f32>, HandlerError> {
///         let right = pred.values.iter().zip(&*label.values).filter(|(pred, label)| pred == label).count();
///         Ok(vec![right as f32 / label.values.len() as f32])
///     }
/// }
///
/// let array = |values: [f32; 4]| Array::new(vec![1, 1, 1, 4], values.to_vec()).unwrap();
/// assert_eq!(Accuracy.measure(array([0.0, 1.0, 1.0, 1.0]), array([0.0, 1.0, 1.0, 0.0]))?, [0.75]);
/// # Ok::<(), HandlerError>(())
/// ```
pub trait Metric: Send + Sync {
    /// Returns a row of numbers for an item, of the same length for all items: one per class, or
    /// one. NaN if there is nothing to measure. `pred` and `label` are `[C, X, Y, Z]`; their affine
    /// has the voxel size in mm.
    ///
    /// # Errors
    /// The problem of the input.
    fn measure(&self, pred: Array<'_>, label: Array<'_>) -> Result<Vec<f32>, HandlerError>;
}

/// A reader.
///
/// ```
/// use std::path::Path;
/// use hearth_plugin::HandlerError;
/// use hearth_plugin::component::{Array, Reader};
///
/// /// Little-endian f32 along the first axis.
/// struct Raw;
///
/// impl Reader for Raw {
///     fn read(&self, path: &Path) -> Result<Array<'static>, HandlerError> {
///         let bytes = std::fs::read(path)?;
///         let values = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
///         let values = values.collect::<Vec<f32>>();
///         Array::new(vec![1, values.len(), 1, 1], values).map_err(HandlerError::new)
///     }
/// }
///
/// assert!(Raw.read(Path::new("missing.raw")).is_err());
/// ```
pub trait Reader: Send + Sync {
    /// Reads the image `[C, X, Y, Z]` of a file, with the affine from voxel index to mm (RAS+). Check
    /// the file's lengths before memory is allocated for them.
    ///
    /// # Errors
    /// If the file is missing, damaged or of another kind.
    fn read(&self, path: &Path) -> Result<Array<'static>, HandlerError>;
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
/// kind, its name, the type of its options, and a function that builds it from them, which returns `Ok`
/// with a type that has the trait of the kind, or a [`Fault`](crate::Fault).
///
/// The kinds: `transform`, `map_transform`, `metric`, `loss`, `reader`, `writer`, `layout`, `sampler`,
/// `schedule`, `inferer`. A crate that has a handler, too, lists its components in `export_plugin!`.
#[macro_export]
macro_rules! export_components {
    ($name:expr, needs: [$($need:ident),* $(,)?], { $($components:tt)+ }) => {
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

                $crate::__components! { $($components)+ }
            }
        }
    };
}

/// The functions of a plugin that list its components and build them.
#[doc(hidden)]
#[macro_export]
macro_rules! __components {
    ($($help:literal $kind:ident $Name:ident ($Options:ty) = $new:expr;)+) => {
        fn components() -> ::std::vec::Vec<$crate::component::ComponentInfo> {
            ::std::vec![$($crate::component::ComponentInfo {
                kind: $crate::component::kinds::$kind::KIND,
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
                return $new(options).map($crate::component::kinds::$kind::made);
            })+
            ::core::result::Result::Err($crate::Fault::new(::std::format!("there is no component {name}")))
        }
    };
}
