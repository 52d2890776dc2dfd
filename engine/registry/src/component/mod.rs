//! Components of plugins. Recipes name them with a dot: `mine.Blur` is `Blur` of the plugin `mine`.
//! They work on arrays in host memory, so that this crate needs no tensor library.
//!
//! A program that loads plugins sets the function that finds components ([`provide`]); the kinds
//! that plugins can extend call it: [`find`], or [`Late`] for those that only some commands use. [`texts`]
//! are what some kinds exchange besides arrays.

mod kind;
mod late;
pub mod texts;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::kind::ComponentKind;
pub use self::late::Late;
use crate::fault::Fault;
use crate::node::Node;

/// A row-major f32 array in host memory, with a position in world space.
///
/// ```
/// use hearth_registry::component::{HostArray, IDENTITY};
/// let image = HostArray::new(vec![1, 2, 2, 1], vec![0.0_f32; 4])?; // [C, X, Y, Z]
/// assert_eq!(image.affine, IDENTITY);
/// assert!(HostArray::new(vec![3], vec![0.0_f32; 4]).is_err());
/// # Ok::<(), String>(())
/// ```
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

/// The answer of an operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Arrays, as the operation defines them.
    pub arrays: Vec<HostArray<'static>>,
    /// JSON, as the operation defines it; empty if it defines none.
    pub text: String,
}

/// The network, for an inferer: a window `[N, C, X, Y, Z]` to its output.
pub type Network<'a> = dyn FnMut(HostArray<'_>) -> Result<HostArray<'static>, String> + 'a;

/// A component of a plugin. Several threads may use it at once.
pub trait Component: Send + Sync {
    /// Computes arrays from arrays and a text (the path, for a reader): kinds `transform`, `metric` and
    /// `reader`.
    ///
    /// # Errors
    /// The plugin's own message.
    fn run(&self, inputs: &[HostArray<'_>], text: &str) -> Result<Vec<HostArray<'static>>, String>;

    /// Carries out an operation of the kind: the other kinds. `text` is JSON, and is empty if the operation
    /// defines none; `network` is there for inferers. [`ComponentKind`] lists the operations.
    ///
    /// # Errors
    /// The plugin's own message, or that it was built before the operation existed.
    fn call(
        &self,
        operation: &str,
        inputs: &[HostArray<'_>],
        text: &str,
        network: Option<&mut Network<'_>>,
    ) -> Result<Answer, String>;

    /// Plugin, version and hash of its files, for the keys of caches: `mine 0.1.0 8d3f...`. A rebuilt
    /// plugin has another one.
    fn version(&self) -> String;
}

/// Finds the component of one of these kinds and a name (`mine.Blur`) and builds it from its options.
pub type Finder =
    dyn Fn(&[ComponentKind], &str, &Node) -> Result<(ComponentKind, Arc<dyn Component>), Fault> + Send + Sync;

thread_local! {
    static PLACES: RefCell<Places> = RefCell::default();
}

/// What a recipe says about its plugins, for its components.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Places {
    /// Files and folders in which components are searched, too.
    pub paths: Vec<PathBuf>,
    /// Plugins that run in processes of their own, with the time limit of a call.
    pub isolated: BTreeMap<String, Duration>,
}

impl From<Vec<PathBuf>> for Places {
    /// Places of plugins that run in this process.
    fn from(paths: Vec<PathBuf>) -> Self {
        Self { paths, isolated: BTreeMap::new() }
    }
}

/// Reads a recipe that says this about its plugins.
pub fn with_places<T>(places: impl Into<Places>, read: impl FnOnce() -> T) -> T {
    /// Restores the places, also after a panic.
    struct Before(Places);
    impl Drop for Before {
        fn drop(&mut self) {
            PLACES.set(std::mem::take(&mut self.0));
        }
    }
    let _before = Before(PLACES.replace(places.into()));
    read()
}

/// What the recipe says that this thread reads: see [`with_places`].
pub fn places() -> Places {
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
    find_one_of(&[kind], name, options).map(|(_, component)| component)
}

/// Finds a component that has one of several kinds, and builds it.
///
/// # Errors
/// As [`find`].
pub fn find_one_of(
    kinds: &[ComponentKind],
    name: &str,
    options: &Node,
) -> Result<(ComponentKind, Arc<dyn Component>), Fault> {
    let finder = FINDER.read().unwrap_or_else(PoisonError::into_inner).clone();
    let none = || Fault::at("name", format!("{name} is of a plugin, and this program loads none"));
    let found = finder.ok_or_else(none)?(kinds, name, options)?;
    LOADED.lock().unwrap_or_else(PoisonError::into_inner).insert(found.1.version());
    Ok(found)
}

static LOADED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The plugins whose components this process has used, as [`Component::version`] names them.
pub fn loaded() -> Vec<String> {
    LOADED.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
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
        let at = |path: &str| Places::from(vec![PathBuf::from(path)]);
        let inner = || with_places(at("/b"), places);
        assert_eq!(with_places(at("/a"), || (inner(), places())), (at("/b"), at("/a")));
        let _ = std::panic::catch_unwind(|| with_places(at("/c"), || panic!("a bad recipe")));
        assert_eq!(places(), Places::default());
    }

    #[test]
    fn without_plugins_there_is_no_component() {
        let fault = find(ComponentKind::Transform, "mine.Blur", &Node::empty()).err().expect("no plugins");
        assert_eq!((fault.path.as_str(), is_of_a_plugin("Blur")), ("name", false));
        assert!(fault.to_string().contains("mine.Blur is of a plugin"), "{fault}");
    }
}
