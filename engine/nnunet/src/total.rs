//! What TotalSegmentator does around its models: resampling there and back, and its label map.

use rayon::prelude::*;

use crate::error::{NnunetError, Result};
use crate::preprocess::target_shape;
use crate::volume::{Axes3, Volume};

/// The classes of TotalSegmentator's task `total`, whose labels are 1, 2, ... in this order. Names
/// with a number stand for themselves alone.
pub fn total_classes() -> Vec<String> {
    let mut names: Vec<String> = ORGANS.iter().map(|name| (*name).to_owned()).collect();
    names.extend(["sacrum", "vertebrae_S1"].map(str::to_owned));
    for (letter, count) in [('L', 5), ('T', 12), ('C', 7)] {
        names.extend((1..=count).rev().map(|number| format!("vertebrae_{letter}{number}")));
    }
    names.extend(HEART_AND_MUSCLES.iter().map(|name| (*name).to_owned()));
    for side in ["left", "right"] {
        names.extend((1..=12).map(|number| format!("rib_{side}_{number}")));
    }
    names.extend(["sternum", "costal_cartilages"].map(str::to_owned));
    names
}

const ORGANS: [&str; 24] = [
    "spleen",
    "kidney_right",
    "kidney_left",
    "gallbladder",
    "liver",
    "stomach",
    "pancreas",
    "adrenal_gland_right",
    "adrenal_gland_left",
    "lung_upper_lobe_left",
    "lung_lower_lobe_left",
    "lung_upper_lobe_right",
    "lung_middle_lobe_right",
    "lung_lower_lobe_right",
    "esophagus",
    "trachea",
    "thyroid_gland",
    "small_bowel",
    "duodenum",
    "colon",
    "urinary_bladder",
    "prostate",
    "kidney_cyst_left",
    "kidney_cyst_right",
];

const HEART_AND_MUSCLES: [&str; 41] = [
    "heart",
    "aorta",
    "pulmonary_vein",
    "brachiocephalic_trunk",
    "subclavian_artery_right",
    "subclavian_artery_left",
    "common_carotid_artery_right",
    "common_carotid_artery_left",
    "brachiocephalic_vein_left",
    "brachiocephalic_vein_right",
    "atrial_appendage_left",
    "superior_vena_cava",
    "inferior_vena_cava",
    "portal_vein_and_splenic_vein",
    "iliac_artery_left",
    "iliac_artery_right",
    "iliac_vena_left",
    "iliac_vena_right",
    "humerus_left",
    "humerus_right",
    "scapula_left",
    "scapula_right",
    "clavicula_left",
    "clavicula_right",
    "femur_left",
    "femur_right",
    "hip_left",
    "hip_right",
    "spinal_cord",
    "gluteus_maximus_left",
    "gluteus_maximus_right",
    "gluteus_medius_left",
    "gluteus_medius_right",
    "gluteus_minimus_left",
    "gluteus_minimus_right",
    "autochthon_left",
    "autochthon_right",
    "iliopsoas_left",
    "iliopsoas_right",
    "brain",
    "skull",
];

/// Positions in `from` voxels of `to` voxels over the same ends.
fn ends_on_ends(from: usize, to: usize) -> impl Fn(usize) -> f64 {
    let step = if to > 1 { (from as f64 - 1.0) / (to as f64 - 1.0) } else { 0.0 };
    move |at| at as f64 * step
}

/// An image at another size of voxels, linear, truncated to whole numbers: the input of
/// TotalSegmentator's models.
///
/// # Errors
/// A size beyond all limits.
pub fn resampled(image: &Volume, spacing: Axes3<f64>, target: Axes3<f64>) -> Result<Volume> {
    if spacing.iter().any(|size| !size.is_finite() || *size <= 0.0) || image.voxels() == 0 {
        return Err(NnunetError::case(format!("its voxels have sizes of {spacing:?} mm; expected sizes above 0")));
    }
    let shape = target_shape(image.shape, spacing, target)?;
    let along: [Vec<(usize, usize, f64)>; 3] = std::array::from_fn(|axis| {
        let position = ends_on_ends(image.shape[axis], shape[axis]);
        let neighbours = |at: usize| {
            let at = position(at);
            let low = (at.floor() as usize).min(image.shape[axis] - 1);
            (low, (low + 1).min(image.shape[axis] - 1), at - low as f64)
        };
        (0..shape[axis]).map(neighbours).collect()
    });
    let plane = (shape[1] * shape[2]).max(1);
    let mut data = vec![0.0_f32; image.channels * shape.iter().product::<usize>()];
    data.par_chunks_mut(plane).enumerate().for_each(|(index, out)| {
        let values = image.channel(index / shape[0]);
        let (z0, z1, tz) = along[0][index % shape[0]];
        let at = |z: usize, y: usize, x: usize| f64::from(values[(z * image.shape[1] + y) * image.shape[2] + x]);
        let mix = |a: f64, b: f64, t: f64| a * (1.0 - t) + b * t;
        for (out, (y0, y1, ty)) in out.chunks_mut(shape[2].max(1)).zip(&along[1]) {
            for (out, (x0, x1, tx)) in out.iter_mut().zip(&along[2]) {
                let row = |z: usize, y: usize| mix(at(z, y, *x0), at(z, y, *x1), *tx);
                let plane = |z: usize| mix(row(z, *y0), row(z, *y1), *ty);
                *out = mix(plane(z0), plane(z1), tz).trunc() as f32;
            }
        }
    });
    Ok(Volume { channels: image.channels, shape, data })
}

/// A label map at the size of the image again, by the nearest voxel.
pub fn restored(labels: &Volume<u16>, shape: Axes3) -> Volume<u16> {
    let along: [Vec<usize>; 3] = std::array::from_fn(|axis| {
        let (from, position) = (labels.shape[axis], ends_on_ends(labels.shape[axis], shape[axis]));
        (0..shape[axis]).map(|at| ((position(at) + 0.5).floor() as usize).min(from.saturating_sub(1))).collect()
    });
    let mut data = Vec::with_capacity(shape.iter().product());
    for z in &along[0] {
        for y in &along[1] {
            let row = (z * labels.shape[1] + y) * labels.shape[2];
            data.extend(along[2].iter().map(|x| labels.data[row + x]));
        }
    }
    Volume { channels: 1, shape, data }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_totalsegmentator() {
        let recorded: serde_json::Value =
            serde_json::from_str(include_str!("../tests/recorded/total_classes.json")).expect("JSON");
        assert_eq!(recorded["classes"], serde_json::json!(total_classes()));
    }

    #[test]
    fn ends_lie_on_ends() {
        let line = Volume::new(1, [1, 1, 3], vec![0.0, 10.0, -5.0]).expect("three");
        let finer = resampled(&line, [1.0; 3], [1.0, 1.0, 0.6]).expect("five");
        assert_eq!(finer.data, [0.0, 5.0, 10.0, 2.0, -5.0]);
        let labels = Volume::new(1, [1, 1, 5], vec![1, 2, 3, 4, 5]).expect("five");
        assert_eq!(restored(&labels, [1, 1, 3]).data, [1, 3, 5]);
    }
}
