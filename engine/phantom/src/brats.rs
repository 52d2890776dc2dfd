//! Heads in four MR contrasts with tumours of three nested parts.
//!
//! Each contrast shows what it shows in patients, and no contrast shows everything. Oedema is
//! bright in FLAIR and T2w, but cerebrospinal fluid is as bright in T2w and small old lesions of
//! the white matter are as bright in FLAIR. The enhancing rim is bright in T1gd only, where vessels
//! are as bright. Old blood inside a tumour is bright in T1gd and, unlike the rim, in T1w too. So a
//! network has to combine contrasts. Brains are skull-stripped, as in the challenge: the background
//! is 0.

use std::path::Path;

use derive_setters::Setters;
use hearth_datasets::{DataError, Progress};
use hearth_image::affine::{self, Affine};
use hearth_image::{Image, host_device};
use hearth_io::nifti::{DataType, NiftiOptions, write_nifti};
use hearth_transforms::{Draw, DrawKey};
use rayon::prelude::*;

use super::decathlon_folder::{About, Folder, digits, make};
use super::shapes::{Organ, smooth};

/// Width and height of the field of view, in mm.
const FIELD: [f64; 2] = [192.0, 150.0];

/// The layout of the cases on disk, and the labels of the tumour's parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BratsLayout {
    /// The Decathlon's Task01: one image of four channels (FLAIR, T1w, T1gd, T2w); 1 oedema, 2
    /// non-enhancing and necrotic core, 3 enhancing tumour.
    #[default]
    Decathlon,
    /// BraTS 2018 to 2022: a folder for each case with `_flair`, `_t1`, `_t1ce`, `_t2` and `_seg`;
    /// 1 core, 2 oedema, 4 enhancing tumour.
    Brats2018,
    /// BraTS 2023 and later: `-t2f`, `-t1n`, `-t1c`, `-t2w` and `-seg`; 1 core, 2 oedema, 3
    /// enhancing tumour.
    Brats2023,
}

impl BratsLayout {
    /// Labels of oedema, core and enhancing tumour.
    fn labels(self) -> [f32; 3] {
        match self {
            BratsLayout::Decathlon => [1.0, 2.0, 3.0],
            BratsLayout::Brats2018 => [2.0, 1.0, 4.0],
            BratsLayout::Brats2023 => [2.0, 1.0, 3.0],
        }
    }

    /// The suffixes after a case's name, in the order of the channels.
    fn suffixes(self) -> [&'static str; 4] {
        match self {
            BratsLayout::Brats2023 => ["-t2f", "-t1n", "-t1c", "-t2w"],
            _ => ["_flair", "_t1", "_t1ce", "_t2"],
        }
    }
}

/// Options of the volumes.
#[derive(Clone, Debug, Setters)]
#[non_exhaustive]
pub struct BratsOptions {
    /// Number of voxels along the two in-plane axes over 192 mm; slices have the same thickness. 16
    /// to 512.
    pub size: usize,
    /// The same seed gives the same volumes.
    pub seed: u64,
    /// The layout of the files and the label numbers.
    pub layout: BratsLayout,
    /// How progress is shown.
    pub progress: Progress,
}

impl Default for BratsOptions {
    fn default() -> Self {
        BratsOptions { size: 64, seed: 0, layout: BratsLayout::default(), progress: Progress::None }
    }
}

/// Writes a data set of `cases` heads.
///
/// # Errors
/// If the size is out of range or a file cannot be written.
pub fn brats(dir: impl AsRef<Path>, cases: usize, options: &BratsOptions) -> Result<(), DataError> {
    let dir = dir.as_ref();
    if !(16..=512).contains(&options.size) {
        return Err(DataError::Option(format!("a size of {}, expected 16 to 512", options.size)));
    }
    let bar = options.progress.start("phantom", cases as u64);
    if options.layout != BratsLayout::Decathlon {
        for case in 0..cases {
            write_folder(dir, case, cases, options)?;
            bar.advance();
        }
        bar.finish();
        return Ok(());
    }
    let mut folder = Folder::new(dir, "BRATS", cases)?;
    for case in 0..cases {
        let (image, label) = brats_case(case, options);
        folder.add(&image, &label)?;
        bar.advance();
    }
    bar.finish();
    folder.finish(&About {
        name: "Brain tumour phantom",
        description: "Made-up MR of the head; no patient's data",
        dimensions: "4D",
        modalities: &["FLAIR", "T1w", "T1gd", "T2w"],
        labels: &["background", "edema", "non-enhancing tumor", "enhancing tumour"],
    })
}

/// Writes the folder of one case with a file for each contrast.
fn write_folder(dir: &Path, case: usize, cases: usize, options: &BratsOptions) -> Result<(), DataError> {
    let width = digits(cases).max(3);
    let (name, separator) = match options.layout {
        BratsLayout::Brats2023 => (format!("BraTS-GLI-{case:05}-000"), "-"),
        _ => (format!("Brats18_{case:0width$}"), "_"),
    };
    let folder = dir.join(&name);
    make(&folder)?;
    let (image, label) = brats_case(case, options);
    for (channel, suffix) in options.layout.suffixes().into_iter().enumerate() {
        let one = Image { data: image.data.clone().narrow(0, channel, 1), ..image.clone() };
        let path = folder.join(format!("{name}{suffix}.nii.gz"));
        write_nifti(path, &one, NiftiOptions::image().data_type(DataType::I16))?;
    }
    write_nifti(folder.join(format!("{name}{separator}seg.nii.gz")), &label, NiftiOptions::label())?;
    Ok(())
}

/// Image `[4, X, Y, Z]` (FLAIR, T1w, T1gd, T2w) and label `[1, X, Y, Z]` of one case.
pub fn brats_case(case: usize, options: &BratsOptions) -> (Image, Image) {
    let draw = DrawKey::new(options.seed, 0, 0).draw(&format!("brats phantom {case}"), 0, 0);
    let size = options.size;
    let voxel = FIELD[0] / size as f64;
    let shape = [size, size, ((FIELD[1] / voxel).round() as usize).max(8)];
    let grid = grid(shape, voxel);
    let head = Head::new(&draw);
    let numbers = options.layout.labels();
    let plane = shape[1] * shape[2];
    let count = shape[0] * plane;
    let mut tissue = vec![Tissue::Outside; count];
    tissue.par_chunks_mut(plane).enumerate().for_each(|(x, row)| {
        for (i, tissue) in row.iter_mut().enumerate() {
            *tissue = head.at(affine::apply(&grid, [x as f64, (i / shape[2]) as f64, (i % shape[2]) as f64]));
        }
    });
    let label: Vec<f32> = tissue.iter().map(|tissue| tissue.part().map_or(0.0, |part| numbers[part])).collect();
    let mut values = Vec::with_capacity(4 * count);
    for contrast in 0..4 {
        let draw = draw.part(1 + contrast as u64);
        let mut channel: Vec<f32> = tissue.iter().map(|tissue| tissue.signal()[contrast]).collect();
        smooth(&mut channel, shape);
        shade(&mut channel, shape, &draw);
        draw.add_normal(&mut channel, 0.0, draw.between(0.025, 0.045) as f32);
        // MR intensities have no physical unit.
        let gain = draw.between(300.0, 900.0) as f32;
        values.extend(channel.iter().zip(&tissue).map(|(value, tissue)| match tissue {
            Tissue::Outside => 0.0,
            _ => (value.abs() * gain).round().clamp(1.0, 30_000.0),
        }));
    }
    let device = host_device();
    let [x, y, z] = shape;
    (Image::from_values(values, [4, x, y, z], grid, &device), Image::from_values(label, [1, x, y, z], grid, &device))
}

/// The axes of the atlas space of the challenge's volumes: towards left, back, head.
fn grid(shape: [usize; 3], voxel: f64) -> Affine {
    let mut grid = affine::IDENTITY;
    for (axis, direction) in [-1.0, -1.0, 1.0].into_iter().enumerate() {
        grid[axis][axis] = direction * voxel;
        grid[axis][3] = -direction * voxel * (shape[axis] as f64 - 1.0) / 2.0;
    }
    grid
}

/// The slow shading of a receiver coil: a factor that is a plane over the volume.
fn shade(values: &mut [f32], shape: [usize; 3], draw: &Draw) {
    let slope: [f32; 3] = std::array::from_fn(|_| draw.between(-0.1, 0.1) as f32);
    for (i, value) in values.iter_mut().enumerate() {
        let place = [i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]];
        let shading: f32 = (0..3).map(|a| slope[a] * (2.0 * place[a] as f32 / shape[a] as f32 - 1.0)).sum();
        *value *= 1.0 + shading;
    }
}

/// The tissue of a voxel.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Tissue {
    Outside,
    Fluid,
    Grey,
    White,
    /// A small old lesion of the white matter: no tumour.
    Scar,
    Vessel,
    Oedema,
    Core,
    /// Old blood, within the core.
    Blood,
    Enhancing,
}

impl Tissue {
    /// The signal in FLAIR, T1w, T1gd and T2w, relative to 0.8 for white matter in T1w.
    fn signal(self) -> [f32; 4] {
        match self {
            Tissue::Outside => [0.0; 4],
            Tissue::Fluid => [0.12, 0.2, 0.2, 1.0],
            Tissue::Grey => [0.6, 0.58, 0.6, 0.6],
            Tissue::White => [0.46, 0.8, 0.82, 0.44],
            Tissue::Scar => [0.92, 0.72, 0.74, 0.66],
            Tissue::Vessel => [0.2, 0.45, 1.25, 0.2],
            Tissue::Oedema => [0.94, 0.6, 0.62, 0.88],
            Tissue::Core => [0.74, 0.38, 0.4, 0.95],
            Tissue::Blood => [0.6, 1.15, 1.2, 0.5],
            Tissue::Enhancing => [0.82, 0.52, 1.22, 0.74],
        }
    }

    /// The part of the tumour: oedema, core, enhancing.
    fn part(self) -> Option<usize> {
        match self {
            Tissue::Oedema => Some(0),
            Tissue::Core | Tissue::Blood => Some(1),
            Tissue::Enhancing => Some(2),
            _ => None,
        }
    }
}

/// All structures of one synthetic head, in mm towards right, front, head.
struct Head {
    brain: Organ,
    ventricles: [Organ; 2],
    nuclei: [Organ; 2],
    cyst: Option<Organ>,
    scars: Vec<Organ>,
    vessels: Vec<Organ>,
    oedema: Organ,
    core: Organ,
    blood: Option<Organ>,
    /// Below this level of `core` the tumour is necrotic.
    necrosis: f64,
    /// The gap in the rim: its direction in radians, and half its width.
    gap: (f64, f64),
    enhances: bool,
}

impl Head {
    fn new(draw: &Draw) -> Self {
        let organ = |center, radii, turn, vary| Organ::new(draw, center, radii, turn, (0.0, 0.0), vary);
        let mut brain = organ([0.0, 0.0, 0.0], [66.0, 84.0, 62.0], 0.0, 0.03);
        brain.bumps = brain.bumps.map(|bump| bump * 0.3);
        let side = if draw.happens(0.5) { 1.0 } else { -1.0 };
        let at = [side * draw.between(22.0, 40.0), draw.between(-38.0, 42.0), draw.between(-18.0, 28.0)];
        let radius = draw.between(10.0, 19.0);
        let stretch: [f64; 3] = std::array::from_fn(|_| draw.between(0.85, 1.2));
        let mut core = organ(at, stretch.map(|s| s * radius), draw.between(-0.6, 0.6), 0.0);
        core.bumps = core.bumps.map(|bump| bump * 1.6);
        let margin = draw.between(7.0, 16.0);
        let shift: [f64; 3] = std::array::from_fn(|a| at[a] + draw.between(-5.0, 5.0));
        let mut oedema = organ(shift, stretch.map(|s| s * radius + margin), draw.between(-0.6, 0.6), 0.0);
        oedema.bumps = oedema.bumps.map(|bump| bump * 2.4);
        let blood = draw.happens(0.5).then(|| {
            let inside = std::array::from_fn(|a| at[a] + draw.between(-0.3, 0.3) * radius);
            organ(inside, [radius * 0.32; 3], 0.0, 0.0)
        });
        let cyst = draw.happens(0.4).then(|| {
            let r = draw.between(8.0, 13.0);
            organ(
                [-side * draw.between(34.0, 46.0), draw.between(-25.0, 30.0), draw.between(-20.0, 20.0)],
                [r; 3],
                0.0,
                0.0,
            )
        });
        let scars = (0..5)
            .map(|_| {
                let side = if draw.happens(0.5) { 1.0 } else { -1.0 };
                let at = [side * draw.between(16.0, 34.0), draw.between(-45.0, 45.0), draw.between(5.0, 34.0)];
                organ(at, [draw.between(2.5, 5.5); 3], 0.0, 0.0)
            })
            .collect();
        let vessels = (0..4)
            .map(|_| {
                let at = [draw.between(-45.0, 45.0), draw.between(-55.0, 55.0), draw.between(-30.0, 40.0)];
                organ(
                    at,
                    [draw.between(2.2, 3.6), draw.between(14.0, 30.0), draw.between(2.2, 3.6)],
                    draw.between(-1.5, 1.5),
                    0.0,
                )
            })
            .collect();
        Head {
            brain,
            ventricles: [1.0, -1.0].map(|side| organ([side * 12.0, -4.0, 8.0], [7.0, 34.0, 10.0], side * 0.25, 0.08)),
            nuclei: [1.0, -1.0].map(|side| organ([side * 24.0, 6.0, 2.0], [9.0, 17.0, 12.0], -side * 0.3, 0.06)),
            cyst,
            scars,
            vessels,
            oedema,
            core,
            blood,
            necrosis: draw.between(0.3, 0.55),
            gap: (draw.between(-3.1, 3.1), draw.between(0.2, 0.7)),
            // A low-grade tumour does not enhance.
            enhances: draw.happens(0.85),
        }
    }

    fn at(&self, at: [f64; 3]) -> Tissue {
        let depth = self.brain.level(at);
        if depth >= 1.0 {
            return Tissue::Outside;
        }
        if let Some(part) = self.tumour(at) {
            return part;
        }
        if self.ventricles.iter().any(|one| one.holds(at)) || self.cyst.as_ref().is_some_and(|cyst| cyst.holds(at)) {
            return Tissue::Fluid;
        }
        // The folds of the cortex, with fluid in the outermost furrows.
        let fold = 0.07 * ((at[0] * 0.29).sin() + (at[1] * 0.24 + at[2] * 0.11).sin() + (at[2] * 0.31).cos());
        if depth > 0.93 + fold * 0.4 {
            return Tissue::Fluid;
        }
        if self.vessels.iter().any(|vessel| vessel.holds(at)) {
            return Tissue::Vessel;
        }
        // Oedema follows the white matter.
        let grey = depth > 0.74 + fold;
        if !grey && self.oedema.holds(at) {
            return Tissue::Oedema;
        }
        if grey || self.nuclei.iter().any(|nucleus| nucleus.holds(at)) {
            return Tissue::Grey;
        }
        if self.scars.iter().any(|scar| scar.holds(at)) {
            return Tissue::Scar;
        }
        Tissue::White
    }

    /// Core and rim of the tumour.
    fn tumour(&self, at: [f64; 3]) -> Option<Tissue> {
        let level = self.core.level(at);
        if level >= 1.0 {
            return None;
        }
        if self.blood.as_ref().is_some_and(|blood| blood.holds(at)) {
            return Some(Tissue::Blood);
        }
        let direction = (at[1] - self.core.center[1]).atan2(at[0] - self.core.center[0]);
        let broken = (direction - self.gap.0).abs() < self.gap.1;
        let rim = level > self.necrosis && !broken;
        Some(if self.enhances && rim { Tissue::Enhancing } else { Tissue::Core })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Means of each contrast over the voxels whose label satisfies `holds`.
    fn means(image: &Image, label: &Image, holds: impl Fn(f32) -> bool) -> [f64; 4] {
        let (values, marks) = (image.to_vec(), label.to_vec());
        std::array::from_fn(|c| {
            let channel = &values[c * marks.len()..(c + 1) * marks.len()];
            let inside: Vec<f64> = channel
                .iter()
                .zip(&marks)
                .filter(|(v, m)| **v > 0.0 && holds(**m))
                .map(|(v, _)| f64::from(*v))
                .collect();
            inside.iter().sum::<f64>() / inside.len() as f64
        })
    }

    #[test]
    fn parts_look_as_in_the_real_contrasts() {
        let mut seen = 0;
        for case in 0..12 {
            let (image, label) = brats_case(case, &BratsOptions::default());
            let [brain, oedema, core, rim] = [
                means(&image, &label, |m| m == 0.0),
                means(&image, &label, |m| m == 1.0),
                means(&image, &label, |m| m == 2.0),
                means(&image, &label, |m| m == 3.0),
            ];
            let [flair, t1, t1gd, t2] = [0, 1, 2, 3];
            assert!(oedema[flair] > 1.3 * brain[flair] && oedema[t2] > brain[t2], "case {case}");
            assert!(core[t1] < brain[t1] * 1.1, "case {case}: the core is dark in T1w");
            if rim[t1gd].is_nan() {
                continue;
            }
            seen += 1;
            assert!(rim[t1gd] > 1.2 * brain[t1gd], "case {case}: the rim enhances");
            assert!(rim[t1] < brain[t1], "case {case}: and does not shine without the agent");
        }
        assert!(seen >= 8, "most tumours enhance: {seen}");
    }

    /// No threshold on one contrast finds both the whole tumour and the enhancing tumour: FLAIR
    /// shows the whole, T1gd the enhancing part.
    #[test]
    fn one_contrast_does_not_show_it_all() {
        let (image, label) = brats_case(1, &BratsOptions::default());
        let (values, marks) = (image.to_vec(), label.to_vec());
        // The best Dice of a threshold on a contrast, for labels from `lowest` on.
        let best = |contrast: usize, lowest: f32| {
            let count = marks.iter().filter(|m| **m >= lowest).count();
            let channel = &values[contrast * marks.len()..(contrast + 1) * marks.len()];
            let mut sorted: Vec<f32> = channel.iter().copied().filter(|v| *v > 0.0).collect();
            sorted.sort_by(f32::total_cmp);
            let dice = |part: usize| {
                let least = sorted[sorted.len() * part / 60];
                let (mut both, mut picked) = (0, 0);
                for (_, m) in channel.iter().zip(&marks).filter(|(v, _)| **v >= least) {
                    picked += 1;
                    both += usize::from(*m >= lowest);
                }
                2.0 * both as f64 / (picked + count) as f64
            };
            (1..60).map(dice).fold(0.0, f64::max)
        };
        let both: [[f64; 2]; 4] = std::array::from_fn(|contrast| [best(contrast, 1.0), best(contrast, 3.0)]);
        assert!(both[0][0] > 0.7 && both[2][1] > 0.5, "each shows something: {both:?}");
        for [whole, enhancing] in both {
            assert!(whole.min(enhancing) < 0.5, "{both:?}");
        }
    }

    #[test]
    fn folders_of_both_namings_and_of_the_decathlon_read_back() {
        use hearth_datasets::layouts::{self, Target, Wants};
        let wants = Wants { target: Target::label(), ..Wants::default() };
        for (layout, highest) in
            [(BratsLayout::Decathlon, 3.0), (BratsLayout::Brats2018, 4.0), (BratsLayout::Brats2023, 3.0)]
        {
            let dir = tempfile::tempdir().expect("a folder");
            let options = BratsOptions { size: 24, layout, ..Default::default() };
            brats(dir.path(), 2, &options).expect("written");
            let list = layouts::read(dir.path(), &wants).expect("a data set");
            assert_eq!(list.labelled.len(), 2, "{layout:?}");
            assert_eq!(list.modalities, ["FLAIR", "T1w", "T1gd", "T2w"], "{layout:?}");
            let (_, label) = brats_case(0, &options);
            let top = label.to_vec().into_iter().fold(0.0, f32::max);
            assert!(top <= highest, "{layout:?}: {top}");
        }
    }

    #[test]
    fn cases_differ_and_a_seed_repeats() {
        let first = |case, seed| brats_case(case, &BratsOptions { size: 16, seed, ..Default::default() }).0.to_vec();
        assert_eq!(first(2, 7), first(2, 7));
        assert_ne!(first(2, 7), first(3, 7));
        assert_ne!(first(2, 7), first(2, 8));
    }

    #[test]
    fn a_size_out_of_range_is_refused() {
        assert!(brats("nowhere", 1, &BratsOptions { size: 8, ..Default::default() }).is_err());
    }
}
