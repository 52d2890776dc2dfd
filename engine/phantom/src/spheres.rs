//! Volumes of bright spheres: MONAI's `create_test_image_3d`, as in its cross-validation notebook.

use std::path::Path;

use derive_setters::Setters;
use hearth_datasets::numpy::RandomState;
use hearth_datasets::{DataError, Progress};
use hearth_image::affine::IDENTITY;
use hearth_image::{Image, host_device};
use hearth_io::nifti::{NiftiOptions, write_nifti};
use serde_json::json;

/// Options of the volumes; the defaults are those of the notebook.
#[derive(Clone, Debug, Setters)]
#[non_exhaustive]
pub struct SpheresOptions {
    /// Number of voxels along each axis; voxels are 1 mm wide.
    pub size: usize,
    /// Number of spheres in a volume; later spheres overwrite earlier ones.
    pub objects: usize,
    /// The smallest radius in voxels, 1 or more.
    pub rad_min: usize,
    /// Exclusive upper bound of the radius; less than half the size.
    pub rad_max: usize,
    /// The upper end of the noise for each class. Spheres of one class have values from 0.5 to 1.
    pub noise_max: f64,
    /// Number of classes; labels count from 1.
    pub classes: usize,
    /// The seed for all volumes, as in `numpy.random.seed`.
    pub seed: u32,
    /// How progress is shown.
    pub progress: Progress,
}

impl Default for SpheresOptions {
    fn default() -> Self {
        Self {
            size: 128,
            objects: 12,
            rad_min: 5,
            rad_max: 30,
            noise_max: 0.0,
            classes: 1,
            seed: 0,
            progress: Progress::None,
        }
    }
}

impl SpheresOptions {
    /// Sets radii in the notebook's proportion to this size: 5 to 30 for 128 voxels.
    pub fn scaled(size: usize) -> Self {
        let rad_min = (size * 5 / 128).max(1);
        Self { size, rad_min, rad_max: (size * 30 / 128).max(rad_min + 1), ..Self::default() }
    }

    fn check(&self) -> Result<(), DataError> {
        let Self { size, rad_min, rad_max, noise_max, classes, .. } = *self;
        let wrong = |what: String| Err(DataError::Option(what));
        if size > 1024 || size <= 2 * rad_max {
            return wrong(format!("a size of {size}, expected more than 2 * {rad_max} (rad_max) and at most 1024"));
        }
        if rad_min < 1 || rad_max <= rad_min {
            return wrong(format!("radii from {rad_min} to below {rad_max}: expected 1 or more, and a larger end"));
        }
        if !(noise_max.is_finite() && noise_max >= 0.0) || classes == 0 {
            return wrong(format!("noise up to {noise_max}, {classes} classes: expected 0 or more, and 1 or more"));
        }
        Ok(())
    }
}

/// Writes a Decathlon folder with `cases` volumes, plus `test` further volumes in its subfolder
/// `test`. One generator draws them all, in the order of their names, as in the notebook.
///
/// # Errors
/// If an option is invalid, or a file cannot be written.
pub fn spheres(dir: impl AsRef<Path>, cases: usize, test: usize, options: &SpheresOptions) -> Result<(), DataError> {
    options.check()?;
    let (dir, mut random) = (dir.as_ref(), RandomState::new(options.seed));
    let bar = options.progress.start("phantom", (cases + test) as u64);
    let width = (cases + test).saturating_sub(1).to_string().len().max(2);
    for (dir, numbers) in [(dir.to_owned(), 0..cases), (dir.join("test"), cases..cases + test)] {
        if numbers.is_empty() {
            continue;
        }
        for folder in ["imagesTr", "labelsTr"] {
            let path = dir.join(folder);
            std::fs::create_dir_all(&path).map_err(|source| DataError::Io { path, source })?;
        }
        let mut listed = Vec::new();
        for number in numbers {
            let name = format!("spheres_{number:0width$}.nii.gz");
            let (image, label) = spheres_case(&mut random, options);
            write_nifti(dir.join("imagesTr").join(&name), &image, NiftiOptions::image())?;
            write_nifti(dir.join("labelsTr").join(&name), &label, NiftiOptions::label())?;
            listed.push(json!({ "image": format!("./imagesTr/{name}"), "label": format!("./labelsTr/{name}") }));
            bar.advance();
        }
        let classes = (1..=options.classes).map(|class| match options.classes {
            1 => (class.to_string(), json!("sphere")),
            _ => (class.to_string(), json!(format!("sphere {class}"))),
        });
        let labels: serde_json::Map<_, _> =
            std::iter::once(("0".to_owned(), json!("background"))).chain(classes).collect();
        let list = json!({
            "name": "Spheres",
            "description": "Bright spheres, as MONAI's create_test_image_3d draws them",
            "reference": "Hearth",
            "licence": "CC0-1.0",
            "release": "1.0",
            "tensorImageSize": "3D",
            "modality": { "0": "none" },
            "labels": labels,
            "numTraining": listed.len(),
            "numTest": 0,
            "training": listed,
            "test": [],
        });
        let path = dir.join("dataset.json");
        hearth_files::replace(&path, format!("{list:#}\n")).map_err(|source| DataError::Io { path, source })?;
    }
    bar.finish();
    Ok(())
}

/// Draws image and label of a generator's next case: bit-identical to MONAI for
/// `numpy.random.RandomState`.
pub fn spheres_case(random: &mut RandomState, options: &SpheresOptions) -> (Image, Image) {
    let SpheresOptions { size, objects, rad_min, rad_max, noise_max, classes, .. } = *options;
    let mut image = vec![0.0_f64; size * size * size];
    for _ in 0..objects {
        let center = [(); 3].map(|()| random.integer(rad_max, size - rad_max));
        let radius = random.integer(rad_min, rad_max);
        let value = match classes {
            1 => random.random() * 0.5 + 0.5,
            _ => (random.random() * classes as f64).ceil(),
        };
        let near = |axis: usize| {
            let (from, to) = (center[axis].saturating_sub(radius), (center[axis] + radius + 1).min(size));
            (from..to).map(move |at| (at, at.abs_diff(center[axis]).pow(2)))
        };
        for (x, dx) in near(0) {
            for (y, dy) in near(1) {
                for (z, dz) in near(2) {
                    if dx + dy + dz <= radius * radius {
                        image[(x * size + y) * size + z] = value;
                    }
                }
            }
        }
    }
    let label: Vec<f32> = image.iter().map(|value| value.ceil() as f32).collect();
    let noise = classes as f64 * noise_max;
    let noisy: Vec<f32> = image.iter().map(|value| value.max(noise * random.random()) as f32).collect();
    let (low, high) = noisy.iter().fold((f32::MAX, f32::MIN), |(low, high), value| (low.min(*value), high.max(*value)));
    let scaled = match high > low {
        true => noisy.iter().map(|value| (value - low) / (high - low)).collect(),
        false => vec![0.0; noisy.len()],
    };
    let (dims, device) = ([1, size, size, size], host_device());
    (Image::from_values(scaled, dims, IDENTITY, &device), Image::from_values(label, dims, IDENTITY, &device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let base = SpheresOptions::scaled(32);
        for options in [
            base.clone().size(14),
            base.clone().rad_min(0),
            base.clone().rad_max(1),
            base.clone().noise_max(f64::NAN),
            base.clone().classes(0),
            base.size(4000),
        ] {
            assert!(spheres(dir.path(), 1, 0, &options).is_err(), "{options:?}");
        }
    }

    #[test]
    fn test_cases_are_a_data_set_of_their_own() {
        let dir = tempfile::tempdir().expect("a folder");
        spheres(dir.path(), 2, 1, &SpheresOptions::scaled(16)).expect("written");
        let names = |dir: &Path| -> Vec<String> {
            hearth_datasets::DecathlonDataset::open(dir)
                .expect("a data set")
                .training
                .into_iter()
                .map(|i| i.case)
                .collect()
        };
        assert_eq!(names(dir.path()), ["spheres_00", "spheres_01"]);
        assert_eq!(names(&dir.path().join("test")), ["spheres_02"]);
    }
}
