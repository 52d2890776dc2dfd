//! Abdomens in CT with a spleen.
//!
//! The spleen has the same intensity as the liver, kidneys and bowel around it, and a different
//! shape, size and position in every case, so a threshold does not find it. Anatomy is described in
//! world millimetres: spacing, tilt and axis directions of the grid vary from case to case and do
//! not move it.

use std::path::Path;

use derive_setters::Setters;
use hearth_datasets::{DataError, Progress};
use hearth_image::affine::{self, Affine};
use hearth_image::{Image, host_device};
use hearth_transforms::{Draw, DrawKey};
use rayon::prelude::*;

use super::decathlon_folder::{About, Folder};
use super::harder::{Harder, partial_volume};
use super::shapes::{Organ, smooth};

/// Width of the field of view, in mm.
const FIELD: f64 = 352.0;

/// Options of the volumes.
#[derive(Clone, Debug, Setters)]
#[non_exhaustive]
pub struct SpleenOptions {
    /// Number of voxels along the two in-plane axes; there are 5/8 as many slices. At least 16.
    pub size: usize,
    /// The same seed yields the same volumes.
    pub seed: u64,
    /// Whether training takes longer: twice the noise, organs of like intensity, voxels of several
    /// tissues, and another field of view in every case.
    pub hard: bool,
    /// How progress is shown.
    pub progress: Progress,
}

impl Default for SpleenOptions {
    fn default() -> Self {
        SpleenOptions { size: 64, seed: 0, hard: false, progress: Progress::None }
    }
}

/// Writes `imagesTr`, `labelsTr` and `dataset.json` with `cases` volumes (labels: 0 background, 1
/// spleen).
///
/// # Errors
/// If the size is out of range or an I/O error occurs.
pub fn spleen(dir: impl AsRef<Path>, cases: usize, options: &SpleenOptions) -> Result<(), DataError> {
    if !(16..=1024).contains(&options.size) {
        return Err(DataError::Option(format!("a size of {}, expected 16 to 1024", options.size)));
    }
    let mut folder = Folder::new(dir.as_ref(), "spleen", cases)?;
    let bar = options.progress.start("phantom", cases as u64);
    for case in 0..cases {
        let (image, label) = spleen_case(case, options);
        folder.add(&image, &label)?;
        bar.advance();
    }
    bar.finish();
    folder.finish(&About {
        name: "Spleen phantom",
        description: "Made-up abdominal CT; no patient's data",
        dimensions: "3D",
        modalities: &["CT"],
        labels: &["background", "spleen"],
    })
}

/// Image (HU) and label of one case.
pub fn spleen_case(case: usize, options: &SpleenOptions) -> (Image, Image) {
    let draw = DrawKey::new(options.seed, 0, 0).draw(&format!("spleen phantom {case}"), 0, 0);
    let size = options.size;
    let shape = [size, size, (size * 5 / 8).max(8)];
    let mut grid = grid(case, shape, &draw);
    let mut anatomy = Anatomy::new(&draw);
    let mut noise = draw.between(14.0, 22.0) as f32;
    if options.hard {
        let harder = Harder::new(options.seed, case);
        harder.view(&mut grid);
        harder.alike(anatomy.soft.iter_mut().chain([&mut anatomy.stomach]), anatomy.spleen.hu);
        noise = harder.noise;
    }
    let plane = shape[1] * shape[2];
    let mut hu = vec![0.0_f32; shape[0] * plane];
    let mut label = vec![0.0_f32; shape[0] * plane];
    hu.par_chunks_mut(plane).zip(label.par_chunks_mut(plane)).enumerate().for_each(|(x, (hu, label))| {
        for (i, (hu, label)) in hu.iter_mut().zip(label).enumerate() {
            let voxel = [x as f64, (i / shape[2]) as f64, (i % shape[2]) as f64];
            let (value, is_spleen) = match options.hard {
                true => partial_volume(&grid, voxel, |at| anatomy.at(at)),
                false => anatomy.at(affine::apply(&grid, voxel)),
            };
            *hu = value as f32;
            *label = f32::from(u8::from(is_spleen));
        }
    });
    smooth(&mut hu, shape);
    draw.add_normal(&mut hu, 0.0, noise);
    hu.iter_mut().for_each(|v| *v = v.round().clamp(-1024.0, 2000.0));
    let dims = [1, shape[0], shape[1], shape[2]];
    let device = host_device();
    (Image::from_values(hu, dims, grid, &device), Image::from_values(label, dims, grid, &device))
}

/// A grid as different scanners produce it: thick slices, sometimes a tilted gantry, various axis
/// directions.
fn grid(case: usize, shape: [usize; 3], draw: &Draw) -> Affine {
    let in_plane = FIELD / shape[0] as f64 * draw.between(0.96, 1.04);
    let slices = 240.0 / shape[2] as f64 * draw.between(0.9, 1.1);
    let tilt = if case % 4 == 3 { draw.between(-0.2, 0.2) } else { 0.0 };
    let roll = if case % 4 == 3 { draw.between(-0.1, 0.1) } else { 0.0 };
    let (st, ct, sr, cr) = (tilt.sin(), tilt.cos(), roll.sin(), roll.cos());
    // About the left-right axis, then about the front-back axis.
    let rotation = [[cr, 0.0, sr], [st * sr, ct, -st * cr], [-ct * sr, st, ct * cr]];
    let directions = [[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]][case % 3];
    let zoom = [in_plane * directions[0], in_plane * directions[1], slices];
    let mut grid = affine::IDENTITY;
    for r in 0..3 {
        for c in 0..3 {
            grid[r][c] = rotation[r][c] * zoom[c];
        }
    }
    // The middle of the volume is the middle of the body.
    let middle = affine::apply(&grid, shape.map(|n| (n as f64 - 1.0) / 2.0));
    for (row, offset) in grid.iter_mut().zip(middle) {
        row[3] = -offset;
    }
    grid
}

/// The anatomy of one synthetic patient, in mm towards right, front, head.
struct Anatomy {
    body: Organ,
    wall: f64,
    spleen: Organ,
    hollow: Organ,
    lungs: [Organ; 2],
    spine: Organ,
    stomach: Organ,
    gas: Organ,
    soft: Vec<Organ>,
    fat: f64,
    muscle: f64,
}

impl Anatomy {
    fn new(draw: &Draw) -> Self {
        let organ = |center, radii, turn, hu, vary| Organ::new(draw, center, radii, turn, hu, vary);
        let mut body = organ([0.0, 0.0, 0.0], [158.0, 112.0, 600.0], 0.0, (0.0, 0.0), 0.06);
        body.turn = (0.0, 1.0);
        body.bumps = [0.0; 6];
        // The spleen: left, posterior, below the diaphragm; its inner side follows the stomach and
        // the kidney.
        let spleen = organ([-96.0, -38.0, 18.0], [27.0, 50.0, 54.0], 0.35, (92.0, 128.0), 0.2);
        let inner = [spleen.center[0] + 31.0, spleen.center[1] + 10.0, spleen.center[2]];
        let hollow = organ(inner, [20.0, 30.0, 38.0], 0.35, (0.0, 0.0), 0.1);
        let stomach = organ([-44.0, 42.0, 28.0], [46.0, 30.0, 44.0], -0.4, (15.0, 45.0), 0.16);
        let gas_at = [stomach.center[0], stomach.center[1] + 14.0, stomach.center[2] + 8.0];
        let mut soft = vec![
            // Liver, kidneys, aorta, vena cava, pancreas.
            organ([72.0, 4.0, 26.0], [76.0, 78.0, 66.0], 0.2, (95.0, 125.0), 0.12),
            organ([-58.0, -52.0, -44.0], [25.0, 27.0, 52.0], 0.3, (105.0, 170.0), 0.12),
            organ([58.0, -52.0, -52.0], [25.0, 27.0, 52.0], -0.3, (105.0, 170.0), 0.12),
            organ([-12.0, -34.0, 0.0], [11.0, 11.0, 400.0], 0.0, (120.0, 180.0), 0.08),
            organ([16.0, -32.0, 0.0], [12.0, 11.0, 400.0], 0.0, (100.0, 150.0), 0.08),
            organ([-24.0, 6.0, -18.0], [50.0, 13.0, 14.0], -0.2, (70.0, 110.0), 0.14),
        ];
        // Bowel: some loops as bright as the spleen, some close to it.
        for _ in 0..7 {
            let at = [draw.between(-95.0, 95.0), draw.between(-10.0, 62.0), draw.between(-105.0, -30.0)];
            let radius = draw.between(13.0, 24.0);
            soft.push(organ(at, [radius, radius, radius * 1.3], 0.0, (20.0, 125.0), 0.1));
        }
        let dome = draw.between(86.0, 104.0);
        Anatomy {
            wall: draw.between(0.74, 0.84),
            lungs: [
                organ([78.0, -8.0, dome + 28.0], [64.0, 78.0, 56.0], 0.0, (-870.0, -820.0), 0.08),
                organ([-78.0, -8.0, dome + 30.0], [60.0, 76.0, 58.0], 0.0, (-870.0, -820.0), 0.08),
            ],
            spine: organ([0.0, -72.0, 0.0], [21.0, 22.0, 500.0], 0.0, (220.0, 420.0), 0.06),
            gas: organ(gas_at, [20.0, 11.0, 18.0], -0.4, (-930.0, -850.0), 0.1),
            fat: draw.between(-112.0, -92.0),
            muscle: draw.between(45.0, 62.0),
            body,
            spleen,
            hollow,
            stomach,
            soft,
        }
    }

    /// HU of a point, and whether it is spleen.
    fn at(&self, at: [f64; 3]) -> (f64, bool) {
        let depth = self.body.level(at);
        if depth >= 1.0 {
            return (-1000.0, false);
        }
        if self.spine.holds(at) {
            return (self.spine.hu, false);
        }
        if depth >= self.wall * self.wall {
            // Fat under the skin, then muscle.
            let skin = 0.5 + 0.5 * self.wall * self.wall;
            return (if depth > skin { self.fat } else { self.muscle }, false);
        }
        let spleen = self.spleen.holds(at) && !self.hollow.holds(at);
        // The diaphragm bounds the lungs from below: organs push it up.
        if spleen {
            return (self.spleen.hu, true);
        }
        if let Some(organ) = self.soft.iter().take(1).find(|o| o.holds(at)) {
            return (organ.hu, false);
        }
        if let Some(lung) = self.lungs.iter().find(|l| l.holds(at)) {
            return (lung.hu, false);
        }
        if self.stomach.holds(at) {
            return (if self.gas.holds(at) { self.gas.hu } else { self.stomach.hu }, false);
        }
        match self.soft.iter().find(|o| o.holds(at)) {
            Some(organ) => (organ.hu, false),
            None => (self.fat + 8.0, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_kernels::host;

    fn spleen_hu(image: &Image, label: &Image) -> (usize, f64) {
        let values: Vec<f32> = image.to_vec();
        let marks = label.to_vec();
        let inside: Vec<f64> =
            values.iter().zip(&marks).filter(|(_, m)| **m > 0.0).map(|(v, _)| f64::from(*v)).collect();
        (inside.len(), inside.iter().sum::<f64>() / inside.len() as f64)
    }

    #[test]
    fn every_case_has_a_spleen_of_plausible_volume() {
        for case in 0..12 {
            let (image, label) = spleen_case(case, &SpleenOptions::default());
            let (count, mean) = spleen_hu(&image, &label);
            let [a, b, c] = image.spacing();
            let millilitres = count as f64 * a * b * c / 1000.0;
            assert!((60.0..650.0).contains(&millilitres), "case {case}: {millilitres} ml");
            // The blur at the surface matters for a small spleen.
            assert!((40.0..140.0).contains(&mean), "case {case}: {mean} HU");
        }
    }

    /// The best threshold window reaches only a low Dice.
    #[test]
    fn a_threshold_does_not_find_it() {
        let (image, label) = spleen_case(1, &SpleenOptions::default());
        let (count, mean) = spleen_hu(&image, &label);
        let marks = label.to_vec();
        let mut best = 0.0_f64;
        for half in [8.0, 15.0, 25.0, 40.0] {
            let (mut both, mut picked) = (0, 0);
            for (v, m) in image.to_vec().iter().zip(&marks) {
                if (f64::from(*v) - mean).abs() < half {
                    picked += 1;
                    both += usize::from(*m > 0.0);
                }
            }
            best = best.max(2.0 * f64::from(both as u32) / (picked + count) as f64);
        }
        assert!(best < 0.5, "a threshold reaches Dice {best}");
    }

    /// The contrast between the spleen and other soft tissue, in units of the noise.
    #[test]
    fn a_hard_case_has_the_same_spleen_with_less_contrast() {
        let spread = |hard: bool| {
            let values: Vec<f64> = (0..6)
                .map(|case| {
                    let (image, label) = spleen_case(case, &SpleenOptions { hard, ..SpleenOptions::default() });
                    let marks = label.to_vec();
                    let values: Vec<f32> = image.to_vec();
                    let inside = values.iter().zip(&marks).filter(|(_, mark)| **mark > 0.0);
                    let inside: Vec<f64> = inside.map(|(value, _)| f64::from(*value)).collect();
                    let mean = inside.iter().sum::<f64>() / inside.len() as f64;
                    (inside.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / inside.len() as f64).sqrt()
                })
                .collect();
            values.iter().sum::<f64>() / values.len() as f64
        };
        assert!(spread(true) > 1.2 * spread(false), "{} {}", spread(true), spread(false));
        for case in 0..6 {
            let volume = |hard| {
                let (image, label) = spleen_case(case, &SpleenOptions { hard, ..SpleenOptions::default() });
                let [a, b, c] = image.spacing();
                label.to_vec().iter().filter(|mark| **mark > 0.0).count() as f64 * a * b * c
            };
            let ratio = volume(true) / volume(false);
            assert!((0.7..1.2).contains(&ratio), "case {case}: {ratio} of the volume is in view");
        }
    }

    #[test]
    fn cases_differ_and_a_seed_repeats() {
        let first = |case, seed| {
            let (image, _) = spleen_case(case, &SpleenOptions { size: 24, seed, ..SpleenOptions::default() });
            host::read(&image.data, <[f32]>::to_vec).unwrap_or_default()
        };
        assert_eq!(first(2, 7), first(2, 7));
        assert_ne!(first(2, 7), first(3, 7));
        assert_ne!(first(2, 7), first(2, 8));
    }

    #[test]
    fn some_grids_are_tilted_and_some_mirrored() {
        let codes: std::collections::BTreeSet<String> =
            (0..6).map(|c| spleen_case(c, &SpleenOptions { size: 16, ..Default::default() }).0.orientation()).collect();
        assert!(codes.len() >= 3, "{codes:?}");
        let (tilted, _) = spleen_case(3, &SpleenOptions { size: 16, ..Default::default() });
        assert!(tilted.affine[1][2] != 0.0);
        let [a, _, c] = tilted.spacing();
        assert!(c != a);
    }

    #[test]
    fn a_folder_reads_back_as_decathlon() {
        let dir = tempfile::tempdir().expect("a folder");
        spleen(dir.path(), 3, &SpleenOptions { size: 20, ..Default::default() }).expect("written");
        let set = hearth_datasets::DecathlonDataset::open(dir.path()).expect("a Decathlon folder");
        assert_eq!(set.training.len(), 3);
        assert_eq!(set.labels[&1], "spleen");
        let (image, _) = spleen_case(2, &SpleenOptions { size: 20, ..Default::default() });
        let read = hearth_io::read_nifti(&set.training[2].files["image"]).expect("readable");
        assert_eq!(read.to_vec(), image.to_vec());
        assert!(affine::distance(&read.affine, &image.affine) < 1e-4);
        assert_eq!(read.meta.stored_type, "int16");
    }

    #[test]
    fn a_size_that_makes_no_sense_is_refused() {
        assert!(spleen("nowhere", 1, &SpleenOptions { size: 2, ..Default::default() }).is_err());
    }
}
