//! What images and data sets of nnU-Net look like, for comparison with each other.

use std::path::Path;

use hearth_nnunet::planner;
use hearth_nnunet::{Configuration, ModelFolder, Plans, Scheme, Volume};
use hearth_recipe::{RecipeError, warning};
use hearth_run::{Fingerprint, ImageFacts, Percentiles, Span, Typical, modality_of, percentiles_of};
use serde_json::Value;

/// z, y, x as x, y, z. The axes of an image of nnU-Net are taken for those of the world.
fn turned([z, y, x]: [f64; 3]) -> [f64; 3] {
    [x, y, z]
}

fn grid(spacing: [f64; 3], shape: [usize; 3]) -> ImageFacts {
    let (spacing_mm, shape) = (turned(spacing), turned(shape.map(|n| n as f64)));
    let extent_mm = std::array::from_fn(|axis| spacing_mm[axis] * shape[axis]);
    ImageFacts { spacing_mm, extent_mm, channels: Vec::new() }
}

/// The facts of an image `[channel, z, y, x]`.
pub(crate) fn facts_of(volume: &Volume, spacing: [f64; 3]) -> ImageFacts {
    ImageFacts { channels: percentiles_of(&volume.data, volume.shape), ..grid(spacing, volume.shape) }
}

/// The file next to the plans of a trained model with the sizes and spacings of its cases.
const CASES: &str = "dataset_fingerprint.json";

/// Reads the properties of a model's training data: `dataset_fingerprint.json` if the folder has it, otherwise the
/// medians of its plans; and the values of its structures in the plans, unless each image is scaled by its
/// own values.
pub(crate) fn fingerprint_of(folder: &ModelFolder, configuration: &Configuration) -> Fingerprint {
    let mut found = cases_of(&folder.path).unwrap_or_else(|| of_medians(&folder.plans));
    found.modality = modality_of(&folder.dataset.channel_names);
    let fixed = |scheme: &Scheme| matches!(scheme, Scheme::Ct | Scheme::RgbTo01 | Scheme::None);
    if configuration.normalization_schemes.iter().all(fixed) {
        found.foreground = structures(&folder.plans, configuration.normalization_schemes.len());
    }
    found
}

/// The sizes and spacings of the training cases, if the folder has them.
fn cases_of(folder: &Path) -> Option<Fingerprint> {
    let path = folder.join(CASES);
    let text = match hearth_files::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        read => read.map_err(RecipeError::from_error),
    };
    let known = text.and_then(|text| serde_json::from_slice(&text).map_err(RecipeError::from_error));
    match known.and_then(|known: Value| Ok(planner::Fingerprint::parse(&known)?)) {
        Ok(known) => of_cases(&known),
        Err(error) => {
            let what = "images are compared with the medians of the training's alone";
            warning!("{}: {what}: {}", path.display(), error.line());
            None
        }
    }
}

/// The ranges over the training cases. Their sizes are those without empty borders, so that the field of
/// view has no greatest size.
fn of_cases(known: &planner::Fingerprint) -> Option<Fingerprint> {
    let cases = known.spacings.iter().zip(&known.shapes_after_crop);
    let images: Vec<ImageFacts> = cases.map(|(spacing, shape)| grid(*spacing, *shape)).collect();
    let mut found = Fingerprint::over(&images)?;
    found.extent_mm.iter_mut().for_each(|[_, most]| *most = f64::INFINITY);
    Some(found)
}

/// The median voxel size in plans.
fn of_medians(plans: &Plans) -> Fingerprint {
    let found = plans.raw.get("original_median_spacing_after_transp").cloned().unwrap_or_default();
    let median = serde_json::from_value::<[f64; 3]>(found).ok();
    let median = median.map(|median| turned(plans.transpose_backward.map(|axis| median[axis])));
    Fingerprint { typical: median.map(Typical::Median), ..Fingerprint::unknown() }
}

/// The values of the labelled structures of each channel; empty if one is not known.
fn structures(plans: &Plans, channels: usize) -> Vec<Percentiles<Span>> {
    let of = |channel: usize| {
        let known = plans.intensities.get(&channel)?;
        let values = [known.low, known.mean, known.high];
        let [low, median, high] = values.map(|value| [value, value]);
        values.iter().all(|value| value.is_finite()).then_some(Percentiles { low, median, high })
    };
    (0..channels).map(of).collect::<Option<_>>().unwrap_or_default()
}

/// What the training data of several models looked like that see the same image. With `voxels`, z y x, they
/// were trained on images resampled to this size, and the original sizes of voxels are not known.
pub(crate) fn fingerprint_of_all(
    models: impl Iterator<Item = Fingerprint>,
    voxels: Option<[f64; 3]>,
) -> Option<Fingerprint> {
    let mut found = models.reduce(|one, other| one.joined(&other))?;
    if let Some(voxels) = voxels {
        let typical = Some(Typical::Resampled(turned(voxels)));
        found = Fingerprint { spacing_mm: Fingerprint::unknown().spacing_mm, typical, ..found };
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_data_set_of_nnunet_is_compared_by_spacing_and_least_size() {
        let known = json!({ "spacings": [[5.0, 0.7, 0.8], [2.0, 0.9, 0.8]], "shapes_after_crop": [[60, 400, 400], [200, 500, 512]] });
        let known = of_cases(&planner::Fingerprint::parse(&known).expect("sound")).expect("cases");
        assert_eq!(known.spacing_mm, [[0.8, 0.8], [0.7, 0.9], [2.0, 5.0]]);
        let mut volume = Volume::<f32>::zeros(1, [100, 50, 60]);
        volume.data[0] = 9.0;
        let facts = facts_of(&volume, [4.0, 0.8, 0.8]);
        assert_eq!((facts.spacing_mm, facts.extent_mm), ([0.8, 0.8, 4.0], [48.0, 40.0, 400.0]));
        let said = known.unlike(&facts);
        assert_eq!(said, ["field of view 40 mm (back to front), trained on at least 280 mm"]);
        assert_eq!(known.unlike(&facts_of(&Volume::zeros(1, [100, 500, 500]), [4.0, 0.8, 0.8])), Vec::<String>::new());
    }

    /// A model of CT whose folder has plans alone: median voxels of 3 x 0.8 x 0.7 mm, axes turned.
    fn plans(of_data_set: &str) -> (tempfile::TempDir, Fingerprint) {
        let folder = tempfile::tempdir().expect("a folder");
        let configuration = json!({
            "patch_size": [16, 16, 16], "spacing": [1.0, 1.0, 1.0], "normalization_schemes": ["CTNormalization"],
            "use_mask_for_norm": [false], "n_conv_per_stage_encoder": [2, 2], "n_conv_per_stage_decoder": [2],
            "UNet_class_name": "PlainConvUNet", "UNet_base_num_features": 4, "unet_max_num_features": 8,
            "conv_kernel_sizes": [[3, 3, 3], [3, 3, 3]], "pool_op_kernel_sizes": [[1, 1, 1], [2, 2, 2]],
        });
        let plans = json!({
            "dataset_name": "Dataset001_Liver", "plans_name": "nnUNetPlans", "image_reader_writer": "SimpleITKIO",
            "transpose_forward": [2, 0, 1], "transpose_backward": [1, 2, 0],
            "original_median_spacing_after_transp": [0.7, 3.0, 0.8],
            "foreground_intensity_properties_per_channel": {
                "0": { "mean": 100.0, "median": 101.0, "std": 30.0, "percentile_00_5": -20.0, "percentile_99_5": 240.0 },
            },
            "configurations": { "3d_fullres": configuration },
        });
        let dataset = json!({
            "channel_names": { "0": "CT" }, "labels": { "background": 0, "liver": 1 }, "file_ending": ".nii.gz",
            "numTraining": 2,
        });
        let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).expect("written");
        write("plans.json", plans.to_string());
        write("dataset.json", dataset.to_string());
        if !of_data_set.is_empty() {
            write(CASES, of_data_set.to_owned());
        }
        let model = ModelFolder::open(folder.path()).expect("a model");
        let configuration = model.plans.configuration("3d_fullres").expect("a configuration");
        let known = fingerprint_of(&model, &configuration);
        (folder, known)
    }

    #[test]
    fn a_model_without_the_fingerprint_of_its_data_set_is_compared_by_its_plans() {
        let known = plans("").1;
        assert_eq!(known.typical, Some(Typical::Median([0.7, 0.8, 3.0])));
        assert_eq!(known.modality.as_deref(), Some("CT"));
        let mut volume = Volume::<f32>::zeros(1, [40, 40, 40]);
        volume.data.iter_mut().enumerate().for_each(|(at, value)| *value = -1000.0 + (at % 1500) as f32);
        assert_eq!(known.unlike(&facts_of(&volume, [5.0, 0.8, 0.7])), Vec::<String>::new());
        volume.data.iter_mut().for_each(|value| *value = (*value + 1000.0) / 1500.0);
        let said = known.unlike(&facts_of(&volume, [10.0, 0.8, 0.7]));
        let spacing = "spacing 10 mm (feet to head), trained on a median of 3 mm";
        assert_eq!(said[0], spacing);
        assert!(said[1].ends_with("trained on structures of 100 (-20 to 240)"), "{said:?}");
        // A damaged one is like none.
        assert_eq!(plans("{").1, known);
    }

    #[test]
    fn models_of_resampled_images_are_compared_with_the_voxels_to_which_images_are_resampled() {
        let of_data_set = json!({ "spacings": [[1.5, 1.5, 1.5]], "shapes_after_crop": [[100, 200, 200]] }).to_string();
        let (_folder, known) = plans(&of_data_set);
        assert_eq!(known.spacing_mm, [[1.5; 2]; 3]);
        let all = fingerprint_of_all([known.clone(), known].into_iter(), Some([1.5; 3])).expect("models");
        let said = all.unlike(&grid([5.0, 0.8, 0.8], [10, 400, 400]));
        let expected = [
            "field of view 50 mm (feet to head), trained on at least 150 mm",
            "spacing 5 mm (feet to head), trained on images resampled to 1.5 mm",
        ];
        assert_eq!(said, expected);
        assert_eq!(all.unlike(&grid([3.0, 0.8, 0.8], [80, 400, 400])), Vec::<String>::new());
    }
}
