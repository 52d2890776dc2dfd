//! Components of plugins. Recipes name them with a dot: `mine.Blur` is `Blur` of the plugin `mine`.
//! They work on arrays in host memory, so that this crate needs no tensor library.
//!
//! A program that loads plugins sets the function that finds components ([`provide`]); the kinds
//! that plugins can extend call it ([`find`]).

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use crate::fault::Fault;
use crate::node::Node;

/// A row-major f32 array in host memory, with a position in world space.
#[derive(Clone, Debug, PartialEq)]
pub struct HostArray<'a> {
    /// Lengths of the axes: `[C, X, Y, Z]` of an image.
    pub shape: Vec<usize>,
    /// The values, as many as the shape requires.
    pub values: Cow<'a, [f32]>,
    /// Affine from voxel index to mm, RAS+; the identity without a position.
    pub affine: [[f64; 4]; 4],
}

/// The affine of voxels with side 1 mm at the origin.
pub const IDENTITY: [[f64; 4]; 4] =
    [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];

impl<'a> HostArray<'a> {
    /// An array of this shape, at the origin.
    ///
    /// # Errors
    /// If the number of values does not match the shape.
    pub fn new(shape: Vec<usize>, values: impl Into<Cow<'a, [f32]>>) -> Result<Self, String> {
        let array = HostArray { shape, values: values.into(), affine: IDENTITY };
        array.check().map(|()| array)
    }

    /// Checks that the values fill the shape.
    ///
    /// # Errors
    /// If the number of values does not match the shape.
    pub fn check(&self) -> Result<(), String> {
        let count = self.shape.iter().try_fold(1_usize, |all, axis| all.checked_mul(*axis));
        if count == Some(self.values.len()) {
            return Ok(());
        }
        Err(format!("an array of shape {:?} does not have {} values", self.shape, self.values.len()))
    }
}

/// The kind of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComponentKind {
    /// A step of `transforms` or `post`: an image `[C, X, Y, Z]` to an image on the same grid.
    Transform = 0,
    /// A metric: prediction and label of an item, `[C, X, Y, Z]` each, to a row of numbers `[N]`.
    Metric = 1,
    /// A reader: a path to an image `[C, X, Y, Z]`.
    Reader = 2,
}

impl ComponentKind {
    /// All kinds.
    pub const ALL: [ComponentKind; 3] = [ComponentKind::Transform, ComponentKind::Metric, ComponentKind::Reader];

    /// The kind's name, in the singular.
    pub fn word(self) -> &'static str {
        match self {
            ComponentKind::Transform => "transform",
            ComponentKind::Metric => "metric",
            ComponentKind::Reader => "reader",
        }
    }
}

impl fmt::Display for ComponentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// A component of a plugin. Several threads may use it at once.
pub trait Component: Send + Sync {
    /// Computes arrays from arrays and a text (the path, for a reader).
    ///
    /// # Errors
    /// The plugin's own message.
    fn run(&self, inputs: &[HostArray<'_>], text: &str) -> Result<Vec<HostArray<'static>>, String>;

    /// Plugin, version and hash of its files, for the keys of caches: `mine 0.1.0 8d3f...`. A rebuilt
    /// plugin has another one.
    fn version(&self) -> String;
}

/// Finds the component of a kind and a name (`mine.Blur`) and builds it from its options.
pub type Finder = dyn Fn(ComponentKind, &str, &Node) -> Result<Arc<dyn Component>, Fault> + Send + Sync;

thread_local! {
    static PLACES: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
}

/// Reads a recipe whose plugins have these files or folders: its components are searched there, too.
pub fn with_places<T>(places: Vec<PathBuf>, read: impl FnOnce() -> T) -> T {
    /// Restores the places, also after a panic.
    struct Before(Vec<PathBuf>);
    impl Drop for Before {
        fn drop(&mut self) {
            PLACES.set(std::mem::take(&mut self.0));
        }
    }
    let _before = Before(PLACES.replace(places));
    read()
}

/// The files and folders of the recipe that this thread reads: see [`with_places`].
pub fn places() -> Vec<PathBuf> {
    PLACES.with_borrow(Clone::clone)
}

static FINDER: RwLock<Option<Arc<Finder>>> = RwLock::new(None);

/// Sets the function that finds components.
pub fn provide(finder: Arc<Finder>) {
    *FINDER.write().unwrap_or_else(PoisonError::into_inner) = Some(finder);
}

/// Whether [`provide`] was called.
pub fn is_provided() -> bool {
    FINDER.read().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// Programs whose dotted names (`monai.losses.DiceLoss`) mean the last part.
pub(crate) const OTHERS: [&str; 3] = ["monai.", "torch.", "ignite."];

/// Whether a name in a recipe is that of a plugin's component: it has a dot, and is not a name of
/// MONAI, PyTorch or ignite.
pub fn is_of_a_plugin(name: &str) -> bool {
    name.contains('.') && !OTHERS.iter().any(|other| name.starts_with(other))
}

/// The message of a plugin as part of an error of the program.
pub fn reports(message: &str) -> String {
    format!("the plugin reports: {message}")
}

/// Finds a component and builds it.
///
/// # Errors
/// If there is no such plugin or component, an option is invalid, or this program loads no plugins.
pub fn find(kind: ComponentKind, name: &str, options: &Node) -> Result<Arc<dyn Component>, Fault> {
    let finder = FINDER.read().unwrap_or_else(PoisonError::into_inner).clone();
    let none = || Fault::at("name", format!("{name} is of a plugin, and this program loads none"));
    finder.ok_or_else(none)?(kind, name, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fill_their_shape() {
        assert!(HostArray::new(vec![2, 3], vec![0.0; 6]).is_ok());
        assert!(HostArray::new(vec![2, 3], vec![0.0; 5]).is_err());
        assert!(HostArray::new(vec![usize::MAX, 2], vec![0.0; 2]).is_err());
    }

    #[test]
    fn places_are_those_of_the_recipe_that_is_read() {
        let inner = || with_places(vec!["/b".into()], places);
        assert_eq!(with_places(vec!["/a".into()], || (inner(), places())), (vec!["/b".into()], vec!["/a".into()]));
        let _ = std::panic::catch_unwind(|| with_places(vec!["/c".into()], || panic!("a bad recipe")));
        assert!(places().is_empty());
    }

    #[test]
    fn without_plugins_there_is_no_component() {
        let fault = find(ComponentKind::Transform, "mine.Blur", &Node::empty()).err().expect("no plugins");
        assert_eq!((fault.path.as_str(), is_of_a_plugin("Blur")), ("name", false));
        assert!(fault.to_string().contains("mine.Blur is of a plugin"), "{fault}");
    }
}
