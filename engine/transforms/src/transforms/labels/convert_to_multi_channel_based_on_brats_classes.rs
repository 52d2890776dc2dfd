use std::collections::BTreeSet;

use burn::tensor::{Tensor, TensorData};
use hearth_image::{Image, TransformError};
use hearth_kernels::host;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;

/// Converts a label map of one channel to the overlapping regions of BraTS, as channels of 0 and 1:
/// tumour core, whole tumour, enhancing tumour.
///
/// The labels are those of BraTS: 1 necrotic and non-enhancing core, 2 oedema, `et_label` enhancing
/// tumour (4 until 2022, 3 from 2023). `classes` (not in MONAI) lists the labels of each channel
/// instead, for other numberings: the Decathlon's Task01 is `[[2, 3], [1, 2, 3], [3]]`.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::ConvertToMultiChannelBasedOnBratsClasses};
/// let step = ConvertToMultiChannelBasedOnBratsClasses::new("image");
/// let image = tiny::apply(step, tiny::line([0.0, 1.0, 2.0, 4.0]))?;
/// // Core, whole tumour, enhancing tumour.
/// let expected = [[0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]];
/// assert_eq!(image.to_vec(), expected.concat());
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConvertToMultiChannelBasedOnBratsClasses {
    keys: Keys,
    #[serde(default = "four")]
    et_label: i64,
    #[serde(default)]
    classes: Option<Vec<Vec<i64>>>,
    /// Whether a label that belongs to no channel is an error, rather than background.
    #[serde(default)]
    strict: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

fn four() -> i64 {
    4
}

impl ConvertToMultiChannelBasedOnBratsClasses {
    /// Creates the transform with the labels of BraTS 2018 to 2022.
    pub fn new(keys: impl Into<Keys>) -> Self {
        ConvertToMultiChannelBasedOnBratsClasses {
            keys: keys.into(),
            et_label: 4,
            classes: None,
            strict: false,
            allow_missing_keys: false,
        }
    }

    /// Converts one label map.
    ///
    /// # Errors
    /// If it has several channels.
    pub fn convert(&self, mut image: Image) -> Result<Image, TransformError> {
        let [channels, x, y, z] = image.data.dims();
        if channels != 1 {
            return Err(TransformError::new(format!("a label map of {channels} channels")).expected("one channel"));
        }
        let classes: Vec<Vec<f32>> = match &self.classes {
            Some(classes) => classes.iter().map(|labels| labels.iter().map(|l| *l as f32).collect()).collect(),
            None => {
                let et = self.et_label as f32;
                vec![vec![1.0, et], vec![1.0, et, 2.0], vec![et]]
            }
        };
        if self.strict {
            check_known(&image, &classes)?;
        }
        let on_cpu = host::read(&image.data, |values| {
            let of_class = |labels: &Vec<f32>| values.iter().map(|v| f32::from(labels.contains(v))).collect::<Vec<_>>();
            classes.iter().flat_map(of_class).collect::<Vec<f32>>()
        });
        image.data = match on_cpu {
            Some(values) => Tensor::from_data(TensorData::new(values, [classes.len(), x, y, z]), &image.data.device()),
            None => {
                let of_class = |labels: &Vec<f32>| {
                    let none = image.data.zeros_like();
                    labels.iter().fold(none, |mask, label| mask.mask_fill(image.data.clone().equal_elem(*label), 1.0))
                };
                Tensor::cat(classes.iter().map(of_class).collect(), 0)
            }
        };
        Ok(image)
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        if matches!(self.et_label, 1 | 2) {
            return Err(Fault::at("et_label", format!("is {}, which is another class's label", self.et_label)));
        }
        if self.classes.as_ref().is_some_and(Vec::is_empty) {
            return Err(Fault::at("classes", "names no class"));
        }
        Ok(())
    }
}

/// Fails if a label is in none of the classes: the labels have another meaning in this data set.
fn check_known(image: &Image, classes: &[Vec<f32>]) -> Result<(), TransformError> {
    let known = |value: f32| value == 0.0 || classes.iter().any(|labels| labels.contains(&value));
    let Some(strange) = image.to_vec().into_iter().find(|value| !known(*value)) else { return Ok(()) };
    let labels: BTreeSet<i64> = classes.iter().flatten().map(|label| *label as i64).collect();
    Err(TransformError::new(format!("the label {strange} belongs to no region"))
        .expected(format!("0 and {labels:?}"))
        .advice(
            "BraTS 2018 to 2022 have 1, 2 and 4; BraTS 2023 and later, and the Decathlon, 1, 2 and 3: see `task.classes`",
        ))
}

setters!(ConvertToMultiChannelBasedOnBratsClasses {
    /// Label of the enhancing tumour.
    et_label: i64,
    /// The labels of each channel.
    classes: Option<Vec<Vec<i64>>>,
    /// Whether a label that belongs to no channel is an error.
    strict: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(ConvertToMultiChannelBasedOnBratsClasses, convert, maps_labels: true);

#[cfg(test)]
mod tests {
    use super::super::tests::{rows, stack, values};
    use super::*;

    #[test]
    fn regions_overlap_and_may_be_listed() {
        let image = rows(&[[0, 1, 2, 3, 4]]);
        let brats = ConvertToMultiChannelBasedOnBratsClasses::new("x");
        let channels = values(&brats.convert(image.clone()).expect("converted"));
        assert_eq!(channels, [0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 0, 0, 1]);
        let decathlon = brats.clone().classes(Some(vec![vec![2_i64, 3], vec![1, 2, 3], vec![3]]));
        let channels = values(&decathlon.convert(image.clone()).expect("converted"));
        assert_eq!(channels, [0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 0]);
        assert!(brats.clone().strict(true).convert(image.clone()).is_err(), "3 is none of BraTS 2018");
        assert!(brats.convert(stack(&[image.clone(), image])).is_err());
        assert!(ConvertToMultiChannelBasedOnBratsClasses::new("x").et_label(2).check_parameters().is_err());
    }
}

transform_entry!(ConvertToMultiChannelBasedOnBratsClasses, r#"keys = ["label"]"#);
