//! The interface of transforms.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use burn::tensor::Device;
use hearth_image::TransformError;
use hearth_registry::{Fault, FromPlugin, Kind, Place, base_names, type_name};
use serde_json::json;

use crate::{Draw, Effect, Sample};

/// One step of a pipeline. Parameters have MONAI's names; values stay on their device, whatever it
/// is. One function is required, or two for a random transform.
///
/// ```
/// use hearth_transforms::{Draw, Pipeline, Sample, Transform};
/// use hearth_image::{Image, TransformError};
///
/// /// Values below a threshold become the threshold.
/// #[derive(Debug)]
/// struct Floor {
///     key: &'static str,
///     least: f64,
/// }
///
/// impl Transform for Floor {
///     fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
///         sample.update(self.key, |image| Ok(Image { data: image.data.clamp_min(self.least), ..image }))?;
///         Ok(vec![sample])
///     }
/// }
///
/// let floor = Floor { key: "image", least: -1000.0 };
/// assert_eq!(floor.name(), "Floor");
/// assert!(Pipeline::new(floor).is_ok());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transform",
    note = "implement `Transform` for a type of your own, or write a closure: `image_fn(\"Floor\", \"image\", -57.0, \
            |least, image| ...)`"
)]
pub trait Transform: Send + Sync + Debug {
    /// The name in messages and recipes: MONAI's name, without the `d` of its dictionary form. The
    /// default is the name of the type.
    fn name(&self) -> &'static str {
        type_name::<Self>()
    }

    /// Whether the transform draws random numbers: one that uses its [`Draw`] must return true.
    /// Caches keep the result of the steps before the first random one, and
    /// [`Pipeline::without_random`](crate::Pipeline::without_random) omits random steps.
    fn is_random(&self) -> bool {
        false
    }

    /// Whether the transform uses images only through the functions of
    /// [`spatial`](hearth_image::spatial), [`Image::shape`](hearth_image::Image::shape) and
    /// [`Image::affine`](hearth_image::Image), never their values. A run of such steps may be
    /// composed and sampled once.
    fn is_lazy(&self) -> bool {
        false
    }

    /// Whether a [lazy](Transform::is_lazy) step first reads values before it works on images that
    /// way: pending steps before it run first, while its own operation may be delayed.
    fn requires_current_data(&self) -> bool {
        false
    }

    /// Whether the transform accepts the value of this key while it is still
    /// [stored](crate::StoredImage): it only reads its shape ([`Sample::shape`], [`Sample::meta`]),
    /// crops boxes ([`Sample::crop`]) or draws from a list ([`Sample::index_list`]). Also true for
    /// keys that it does not use. Every other value is read completely before the step.
    fn reads_boxes(&self, key: &str) -> bool {
        let _ = key;
        false
    }

    /// The keys in parameters that are named neither `keys` nor `..._key`.
    fn other_keys(&self) -> Vec<&str> {
        Vec::new()
    }

    /// The effect on the images of its keys. By default a [lazy](Transform::is_lazy) transform
    /// changes their size, and any other changes their values.
    fn effect(&self) -> Effect {
        if self.is_lazy() { Effect::Regrids } else { Effect::Values }
    }

    /// Whether the transform changes the numbers of labels from those in their files.
    fn maps_labels(&self) -> bool {
        false
    }

    /// Whether the transform copies the voxels of an image on a GPU to host memory, and back if it
    /// changes them. A few numbers (a mean, a range) do not count. The run reports such steps of
    /// the random part if images are on a GPU: each of them waits for the device.
    fn through_host(&self) -> bool {
        false
    }

    /// Whether the transform combines the cases of a batch: it works on whole batches only.
    fn mixes_cases(&self) -> bool {
        false
    }

    /// Applies the transform. Crops may return several samples for one.
    ///
    /// # Errors
    /// If the sample lacks a value that the transform needs.
    fn apply(&self, sample: Sample, draw: &Draw) -> Result<Vec<Sample>, TransformError>;

    /// Applies the transform to a whole batch, whose `entries` are in turn the channels of each
    /// image: `entries * C` of them. By default it treats them as channels.
    ///
    /// # Errors
    /// Those of [`apply`](Transform::apply).
    fn apply_to_batch(&self, sample: Sample, entries: usize, draw: &Draw) -> Result<Vec<Sample>, TransformError> {
        let _ = entries;
        self.apply(sample, draw)
    }

    /// Checks the parameters before the first case. `known` are the keys that exist at this step;
    /// the transform adds those that it creates.
    ///
    /// # Errors
    /// If a parameter is invalid or a key does not exist.
    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        let _ = known;
        Ok(())
    }

    /// Name and parameters, as in a recipe, for dry runs and cache keys. By default the parameters
    /// are the fields in `Debug` form.
    fn describe(&self) -> serde_json::Value {
        json!({ "name": self.name(), "fields": format!("{self:?}") })
    }

    /// Sets the device of the run, before the first case; `None` means the CPU.
    fn place(&mut self, device: Option<&Device>) {
        let _ = device;
    }
}

impl Kind for dyn Transform {
    const WORD: &'static str = "transform";

    const SHARED: &'static [(&'static str, &'static str)] = &[
        ("keys", "Names of the values it works on."),
        ("allow_missing_keys", "Skip keys that a sample does not have."),
        ("prob", "Probability that the transform is applied, 0 to 1."),
        ("mode", "Interpolation, one or per key."),
        ("padding_mode", "How the outside is filled, one or per key."),
        ("align_corners", "Whether the ends of an axis are the centres of its first and last voxel, one or per key."),
        ("spatial_size", "Size of the result in voxels, one or per axis; -1 keeps that of the image."),
        ("roi_size", "Size in voxels, one or per axis; -1 keeps that of the image."),
    ];

    const FROM_PLUGIN: Option<FromPlugin<Self>> = Some(crate::transforms::plugin::build);

    /// MONAI's dictionary transforms have names with `d`, `D` or `Dict` at the end; cuCIM's functions
    /// have lower-case names.
    fn is_spelt(known: &str, written: &str) -> bool {
        base_names(written).contains(&known) || known.to_lowercase() == written.replace('_', "")
    }

    fn place(&self) -> Option<Place> {
        Some(if self.through_host() { Place::ThroughHost } else { Place::WithTensor })
    }

    fn facts(&self) -> Vec<(&'static str, &'static str)> {
        let on_gpu = if self.through_host() { "CPU, copied there and back" } else { "GPU" };
        let of_batch = match (self.mixes_cases(), self.is_random()) {
            (true, _) => "needed",
            (false, true) => "one draw for all cases",
            (false, false) => "as for a case",
        };
        vec![("image in host memory", "CPU"), ("image on a GPU", on_gpu), ("`batch = true`", of_batch)]
    }
}

/// Transforms in order, as accepted by [`Pipeline::new`](crate::Pipeline::new): a tuple, a list, or
/// a single transform. A tuple has up to 24 entries, which may be tuples.
#[diagnostic::on_unimplemented(
    message = "these are not the transforms of a pipeline",
    label = "expected transforms",
    note = "write a tuple of up to 24 transforms, `(LoadImage::new(\"image\"), RandFlip::new(\"image\"))`; tuples in it \
            hold more, and `Vec<Box<dyn Transform>>` any number"
)]
pub trait Steps {
    /// The transforms.
    fn into_steps(self) -> Vec<Arc<dyn Transform>>;
}

impl<T: Transform + 'static> Steps for T {
    fn into_steps(self) -> Vec<Arc<dyn Transform>> {
        vec![Arc::new(self)]
    }
}

impl Steps for Vec<Box<dyn Transform>> {
    fn into_steps(self) -> Vec<Arc<dyn Transform>> {
        self.into_iter().map(Arc::from).collect()
    }
}

impl Steps for Vec<Arc<dyn Transform>> {
    fn into_steps(self) -> Vec<Arc<dyn Transform>> {
        self
    }
}

impl<T: Transform + 'static> Steps for Vec<T> {
    fn into_steps(self) -> Vec<Arc<dyn Transform>> {
        self.into_iter().map(|step| Arc::new(step) as Arc<dyn Transform>).collect()
    }
}

impl<T: Transform + 'static, const N: usize> Steps for [T; N] {
    fn into_steps(self) -> Vec<Arc<dyn Transform>> {
        Vec::from(self).into_steps()
    }
}

impl Steps for () {
    fn into_steps(self) -> Vec<Arc<dyn Transform>> {
        Vec::new()
    }
}

/// Tuples of up to 24 entries; longer ones by nesting.
macro_rules! steps_of_tuples {
    ($($first:ident $($rest:ident)*)?) => {
        $(
            impl<$first: Steps, $($rest: Steps),*> Steps for ($first, $($rest,)*) {
                #[allow(non_snake_case, reason = "names of type parameters are those of variables")]
                fn into_steps(self) -> Vec<Arc<dyn Transform>> {
                    let ($first, $($rest,)*) = self;
                    [$first.into_steps(), $($rest.into_steps()),*].concat()
                }
            }
            steps_of_tuples!($($rest)*);
        )?
    };
}

steps_of_tuples!(A B C D E F G H I J K L M N O P Q R S T U V W X);

/// Implements [`Transform::describe`] for a transform whose fields are its parameters.
pub(crate) fn describe(name: &str, parameters: &impl serde::Serialize) -> serde_json::Value {
    let mut out = serde_json::Map::new();
    out.insert("name".to_owned(), name.into());
    if let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(parameters) {
        out.extend(fields);
    }
    out.into()
}
