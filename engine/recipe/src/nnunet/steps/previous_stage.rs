//! The labels of an earlier stage as channels of the image.

use std::collections::BTreeSet;

use hearth_data::{Draw, Effect, Fault, Image, Keys, Sample, Transform, TransformError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check_previous, describe, tensor, volume};

/// Appends the labels that an earlier stage of a cascade predicted to the image: a channel of 0 and
/// 1 for each of `labels`, in this order, after the image's own channels. The label map has the
/// image's grid, and is removed. The network needs that many more input channels.
///
/// In training it comes after `RandNnunetAugment`, which changes intensities, and before
/// `RandNnunetPreviousStage`.
///
/// ```
/// # use hearth_data::{Sample, tiny};
/// # use hearth_recipe::nnunet::NnunetPreviousStage;
/// let step: NnunetPreviousStage = toml::from_str("keys = ['image']\nlabels = [1, 2]").expect("parameters");
/// let (image, labels) = (tiny::line([5.0, 6.0, 7.0]), tiny::line([0.0, 2.0, 1.0]));
/// let made = tiny::run(step, Sample::new("case").with_image("image", image).with_image("previous", labels))?;
/// let image = made[0].image("image")?;
/// assert_eq!(image.to_vec(), [5.0, 6.0, 7.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
/// # Ok::<(), hearth_data::TransformError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NnunetPreviousStage {
    keys: Keys,
    /// Key of the label map.
    #[serde(default = "previous")]
    previous_key: String,
    /// The labels that get a channel.
    pub labels: Vec<u16>,
}

fn previous() -> String {
    "previous".to_owned()
}

impl Transform for NnunetPreviousStage {
    fn effect(&self) -> Effect {
        Effect::Values
    }

    fn through_host(&self) -> bool {
        true
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        let (key, labels) = (self.previous_key.as_str(), &self.labels);
        let previous = sample.take_image(key).map_err(|error| error.at(key))?;
        let found = volume(&previous).map_err(|error| error.at(key))?;
        if found.channels != 1 {
            let what = format!("it has {} channels; expected a label map of one", found.channels);
            return Err(TransformError::new(what).at(key));
        }
        for name in self.keys.iter().map(str::to_owned).collect::<Vec<_>>() {
            sample.update(&name, |image| {
                let (flat, mut values) = (image.meta.spatial_dims == 2, volume(&image)?);
                if values.shape != found.shape {
                    let what = format!("it has {:?} voxels, and the labels {:?}", values.shape, found.shape);
                    return Err(TransformError::new(what));
                }
                values.data.reserve(labels.len() * found.data.len());
                for label in labels {
                    let set = |value: &f32| f32::from(u8::from(*value == f32::from(*label)));
                    values.data.extend(found.data.iter().map(set));
                }
                values.channels += labels.len();
                Ok(Image { data: tensor(values, flat, &image.data.device()), ..image })
            })?;
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)?;
        check_previous(Some(&self.previous_key), known)?;
        known.remove(&self.previous_key);
        let distinct: BTreeSet<u16> = self.labels.iter().copied().collect();
        if distinct.is_empty() || distinct.len() != self.labels.len() || distinct.contains(&0) {
            let what = format!("{:?}: expected the labels of the foreground, each once", self.labels);
            return Err(Fault::at("labels", what));
        }
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

hearth_registry::entry!(
    dyn Transform => NnunetPreviousStage,
    paper: "Isensee et al. 2021, doi:10.1038/s41592-020-01008-z",
    example: r#"keys = ["image"]
labels = [1]"#
);
