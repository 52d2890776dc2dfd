use std::cmp::Reverse;
use std::collections::BTreeSet;

use burn::tensor::Tensor;
use hearth_image::{Image, TransformError};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;

/// Makes regions consistent with a label map: channels of 0 and 1, which were predicted
/// independently, become the regions that result from writing them as labels and reading them
/// again.
///
/// `classes` lists the labels of each channel, as for `ConvertToMultiChannelBasedOnBratsClasses`;
/// two regions share either all labels of the smaller one, or none. Larger regions are written
/// first and smaller ones over them (nnU-Net's `regions_class_order`), so that a voxel of the
/// enhancing tumour also belongs to the core and to the whole tumour. Where regions without shared
/// labels overlap, the later one is used. If several labels belong to no smaller region, the first
/// one is written.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::ResolveRegions};
/// // One region alone: the label 2 where its channel is set.
/// let step = ResolveRegions::new("image", vec![vec![2]]).as_labels(true);
/// let image = tiny::apply(step, tiny::line([0.0, 1.0, 1.0]))?;
/// assert_eq!(image.to_vec(), [0.0, 2.0, 2.0]);
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolveRegions {
    keys: Keys,
    /// Labels of each channel.
    classes: Vec<Vec<i64>>,
    /// Whether to return the label map, in one channel, instead of the regions.
    #[serde(default)]
    as_labels: bool,
    #[serde(default)]
    allow_missing_keys: bool,
}

impl ResolveRegions {
    /// Creates the transform for regions with these labels.
    pub fn new(keys: impl Into<Keys>, classes: Vec<Vec<i64>>) -> Self {
        ResolveRegions { keys: keys.into(), classes, as_labels: false, allow_missing_keys: false }
    }

    /// The channels in the order in which they are written, and the label that each writes: the
    /// first label that no smaller region has.
    ///
    /// # Errors
    /// If no label map can hold the regions.
    pub fn order(&self) -> Result<Vec<(usize, i64)>, Fault> {
        let sets: Vec<BTreeSet<i64>> = self.classes.iter().map(|labels| labels.iter().copied().collect()).collect();
        let mut order: Vec<usize> = (0..sets.len()).collect();
        order.sort_by_key(|region| (Reverse(sets[*region].len()), *region));
        let mut written = Vec::with_capacity(order.len());
        for region in order {
            let (mut own, fault) = (sets[region].clone(), |what: String| Fault::at("classes", what));
            for (other, set) in sets.iter().enumerate().filter(|(other, _)| *other != region) {
                let shared = sets[region].intersection(set).count();
                if set == &sets[region] {
                    return Err(fault(format!("regions {region} and {other} have the same labels")));
                }
                if shared != 0 && shared != set.len().min(sets[region].len()) {
                    let what = "share some of their labels: one must have all of the other's, or none";
                    return Err(fault(format!("regions {region} and {other} {what}")));
                }
                if shared == set.len() {
                    own.retain(|label| !set.contains(label));
                }
            }
            // In the order of the list.
            match self.classes[region].iter().find(|label| own.contains(label)) {
                Some(label) => written.push((region, *label)),
                None => {
                    return Err(fault(format!("region {region} has no label of its own: the smaller ones have all")));
                }
            }
        }
        Ok(written)
    }

    /// Returns the label map of regions.
    fn labels(&self, data: &Tensor<4>) -> Result<Tensor<4>, TransformError> {
        let [channels, ..] = data.dims();
        if channels != self.classes.len() {
            let expected = format!("{}, one for each region of `classes`", self.classes.len());
            return Err(TransformError::new(format!("an image of {channels} channels")).expected(expected));
        }
        let order = self.order().map_err(|fault| TransformError::new(fault.to_string()))?;
        let none = data.clone().narrow(0, 0, 1).zeros_like();
        Ok(order.into_iter().fold(none, |map, (region, label)| {
            let set = data.clone().narrow(0, region, 1).greater_elem(0.0);
            map.mask_fill(set, label as f64)
        }))
    }

    /// Resolves one image.
    ///
    /// # Errors
    /// If the number of channels differs from that of regions.
    pub fn resolve(&self, mut image: Image) -> Result<Image, TransformError> {
        let map = self.labels(&image.data)?;
        image.data = if self.as_labels {
            map
        } else {
            let of = |labels: &Vec<i64>| {
                let none = map.zeros_like();
                labels.iter().fold(none, |mask, label| mask.mask_fill(map.clone().equal_elem(*label as f64), 1.0))
            };
            Tensor::cat(self.classes.iter().map(of).collect(), 0)
        };
        Ok(image)
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        if self.classes.is_empty() {
            return Err(Fault::at("classes", "names no region"));
        }
        if self.classes.iter().flatten().any(|label| *label <= 0) {
            return Err(Fault::at("classes", "holds a label below 1: 0 is the background"));
        }
        self.order().map(drop)
    }
}

setters!(ResolveRegions {
    /// Whether to return the label map, in one channel, instead of the regions.
    as_labels: bool,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(ResolveRegions, resolve);

transform_entry!(
    ResolveRegions,
    r#"keys = ["label"]
classes = [[1]]"#
);

#[cfg(test)]
mod tests {
    use super::super::tests::{rows, stack, values};
    use super::*;
    use crate::transforms::ConvertToMultiChannelBasedOnBratsClasses;

    fn brats() -> Vec<Vec<i64>> {
        vec![vec![1, 4], vec![1, 2, 4], vec![4]]
    }

    #[test]
    fn smaller_regions_belong_to_the_larger_ones() {
        // TC, WT and ET of five voxels: none, WT alone, TC without WT, ET alone, all.
        let regions = stack(&[rows(&[[0, 0, 1, 0, 1]]), rows(&[[0, 1, 0, 0, 1]]), rows(&[[0, 0, 0, 1, 1]])]);
        let resolve = ResolveRegions::new("x", brats());
        let resolved = values(&resolve.resolve(regions.clone()).expect("resolved"));
        assert_eq!(resolved, [0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1]);
        let map = resolve.clone().as_labels(true).resolve(regions).expect("a label map");
        assert_eq!(values(&map), [0, 2, 1, 4, 4]);
        // Reading the written labels returns the same regions.
        let again = ConvertToMultiChannelBasedOnBratsClasses::new("x").convert(map).expect("regions");
        assert_eq!(values(&again), resolved);
    }

    #[test]
    fn of_several_labels_the_first_is_written() {
        let classes = vec![vec![1, 3, 4], vec![1, 2, 3, 4], vec![4]];
        let regions = stack(&[rows(&[[0, 0, 1, 1]]), rows(&[[0, 1, 1, 1]]), rows(&[[0, 0, 0, 1]])]);
        let resolve = ResolveRegions::new("x", classes).as_labels(true);
        assert_eq!(values(&resolve.resolve(regions).expect("a label map")), [0, 2, 1, 4]);
    }

    #[test]
    fn regions_that_no_label_map_can_hold_are_refused() {
        let fault = |classes: &[&[i64]]| {
            let classes = classes.iter().map(|labels| labels.to_vec()).collect();
            ResolveRegions::new("x", classes).check_parameters().expect_err("refused").to_string()
        };
        assert!(fault(&[&[1, 2], &[2, 3]]).contains("share some of their labels"));
        assert!(fault(&[&[1], &[1]]).contains("the same labels"));
        assert!(fault(&[&[1, 2], &[1], &[2]]).contains("no label of its own"));
        assert!(fault(&[&[0]]).contains("background"));
        assert!(fault(&[]).contains("no region"));
        let one = rows(&[[0, 1]]);
        assert!(ResolveRegions::new("x", brats()).resolve(one).is_err());
    }
}
