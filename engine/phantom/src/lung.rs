//! Synthetic chests for experiments: CT series with a lung tumour as DICOM, with structure sets
//! like those of The Cancer Imaging Archive.
//!
//! The tumour has the same intensity as the vessels, the heart and a plate of collapsed lung next
//! to it. Its shape, size and position differ in every case, so neither a threshold nor a position
//! finds it. Anatomy is described in world millimetres.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use derive_setters::Setters;
use hearth_datasets::{DataError, Progress};
use hearth_dicom::write::{self, CtIdentity};
use hearth_dicom::{Authorship, DicomError, DrawnBy, Grid, Region, RegionVolume, scan};
use hearth_image::affine::{self, Affine};
use hearth_transforms::{Draw, DrawKey};
use rayon::prelude::*;

/// Width of the field of view and height of the chest, in mm.
const FIELD: [f64; 2] = [384.0, 264.0];

/// The structures that are drawn, named as in the collection NSCLC-Radiomics. Labels count from 1.
const REGIONS: [&str; 4] = ["GTV-1", "Lung-Left", "Lung-Right", "Spinal-Cord"];

/// The collection's name of the tumour, and names that other hospitals use.
const TUMOURS: [&str; 3] = [REGIONS[0], "GTV_Mass_CT", "gtv 1"];

/// Options of the chests.
#[derive(Clone, Debug, Setters)]
#[non_exhaustive]
pub struct LungOptions {
    /// Number of voxels along the two in-plane axes; there are half as many slices. At least 32.
    pub size: usize,
    /// The same seed yields the same chests.
    pub seed: u64,
    /// How progress is shown.
    pub progress: Progress,
}

impl Default for LungOptions {
    fn default() -> Self {
        LungOptions { size: 96, seed: 0, progress: Progress::None }
    }
}

/// Writes `cases` patients as `PATIENT/STUDY/SERIES/1-01.dcm`: a CT series, a structure set with
/// tumour, lungs and spinal cord, and for every third patient also a segmentation. In every fourth
/// patient the tumour is not named `GTV-1` but `GTV_Mass_CT` or `gtv 1`.
///
/// # Errors
/// If the size is out of range or an I/O error occurs.
pub fn lung(dir: impl AsRef<Path>, cases: usize, options: &LungOptions) -> Result<(), DataError> {
    let dir = dir.as_ref();
    if !(32..=1024).contains(&options.size) {
        return Err(DataError::Option(format!("a size of {}, expected 32 to 1024", options.size)));
    }
    let bar = options.progress.start("phantom", cases as u64);
    for case in 0..cases {
        write_case(dir, case, options)?;
        bar.advance();
    }
    bar.finish();
    Ok(())
}

fn write_case(dir: &Path, case: usize, options: &LungOptions) -> Result<(), DataError> {
    let (hounsfield, labels, grid) = lung_case(case, options);
    let patient = format!("LUNG1-{:03}", case + 1);
    // The first day of 2020 and the days after it.
    let created = UNIX_EPOCH + Duration::from_secs(1_577_880_000 + 86_400 * case as u64);
    let study = dir.join(&patient).join(format!("{:05}-StudyID-NA", case + 1));
    let images = study.join("0.000000-NA");
    let of = CtIdentity {
        patient,
        description: "made-up chest".to_owned(),
        number: 0,
        uids: format!("hearth lung phantom {} {} {case}", options.seed, options.size),
        created,
    };
    let refused = |error: DicomError| DataError::List { path: images.clone(), what: error.to_string() };
    let slices = write::ct_slices(&hounsfield, &grid, &of).map_err(refused)?;
    let width = slices.len().to_string().len();
    for (k, bytes) in slices.iter().enumerate() {
        put(images.join(format!("1-{:0width$}.dcm", k + 1)), bytes)?;
    }
    // The series is read back, as an annotation tool does.
    let found = scan(&images).map_err(refused)?.series;
    let [series] = &found[..] else {
        return Err(DataError::List { path: images.clone(), what: format!("{} series", found.len()) });
    };
    let tumour = if case % 4 == 3 { TUMOURS[1 + case / 4 % 2] } else { TUMOURS[0] };
    let named = |(i, name): (usize, &&str)| Region::new(i as u32 + 1, if i == 0 { tumour } else { *name });
    let regions = RegionVolume::of_labels(labels, REGIONS.iter().enumerate().map(named).collect(), grid);
    let by = Authorship::new("phantom").description("made-up structures").drawn_by(DrawnBy::Manual).created(created);
    let contours = write::structure_set(&regions, series, &by).map_err(refused)?;
    put(study.join("3.000000-NA").join("1-1.dcm"), &contours)?;
    if case % 3 == 2 {
        let voxels = write::segmentation(&regions, series, &by).map_err(refused)?;
        put(study.join("300.000000-Segmentation").join("1-1.dcm"), &voxels)?;
    }
    Ok(())
}

fn put(path: PathBuf, bytes: &[u8]) -> Result<(), DataError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let written = std::fs::create_dir_all(folder).and_then(|()| hearth_files::replace(&path, bytes));
    written.map_err(|source| DataError::Io { path, source })
}

/// Hounsfield units, labels (1 tumour, 2 left lung, 3 right lung, 4 spinal cord) and grid of one
/// case: `[X, Y, Z]`, Z fastest.
pub fn lung_case(case: usize, options: &LungOptions) -> (Vec<f32>, Vec<f32>, Grid) {
    let draw = DrawKey::new(options.seed, 0, 0).draw(&format!("lung phantom {case}"), 0, 0);
    let shape = [options.size, options.size, options.size / 2];
    let affine = axes(shape, &draw);
    let chest = Chest::new(&draw);
    let noise = draw.between(18.0, 32.0) as f32;
    let plane = shape[1] * shape[2];
    let mut hounsfield = vec![0.0_f32; shape[0] * plane];
    let mut labels = vec![0.0_f32; shape[0] * plane];
    hounsfield.par_chunks_mut(plane).zip(labels.par_chunks_mut(plane)).enumerate().for_each(|(x, (hu, label))| {
        for (i, (hu, label)) in hu.iter_mut().zip(label).enumerate() {
            let at = affine::apply(&affine, [x as f64, (i / shape[2]) as f64, (i % shape[2]) as f64]);
            let (value, region) = chest.at(at);
            (*hu, *label) = (value as f32, f32::from(region));
        }
    });
    draw.add_normal(&mut hounsfield, 0.0, noise);
    hounsfield.iter_mut().for_each(|v| *v = v.round().clamp(-1024.0, 2000.0));
    (hounsfield, labels, Grid::new(shape, affine))
}

/// The axes of the grid, directed as scanners write them: rows towards the left, columns towards
/// the back, slices towards the head.
fn axes(shape: [usize; 3], draw: &Draw) -> Affine {
    let in_plane = FIELD[0] / shape[0] as f64 * draw.between(0.97, 1.06);
    let slices = FIELD[1] / shape[2] as f64 * draw.between(0.95, 1.05);
    let mut grid = affine::IDENTITY;
    for (axis, step) in [-in_plane, -in_plane, slices].into_iter().enumerate() {
        grid[axis][axis] = step;
        grid[axis][3] = -step * (shape[axis] as f64 - 1.0) / 2.0 + draw.between(-8.0, 8.0);
    }
    grid
}

/// An ellipsoid with a bumpy surface.
struct Blob {
    center: [f64; 3],
    radii: [f64; 3],
    bumps: [f64; 6],
}

impl Blob {
    fn new(draw: &Draw, center: [f64; 3], radii: [f64; 3], vary: f64, bumps: f64) -> Self {
        Blob {
            center: center.map(|c| c + draw.between(-30.0, 30.0) * vary),
            radii: radii.map(|r| r * draw.between(1.0 - vary, 1.0 + vary)),
            bumps: std::array::from_fn(|_| draw.between(-bumps, bumps)),
        }
    }

    /// A level that is below 1 inside.
    fn level(&self, at: [f64; 3]) -> f64 {
        let [x, y, z] = std::array::from_fn(|a| (at[a] - self.center[a]) / self.radii[a]);
        let b = &self.bumps;
        let waves =
            b[0] * (3.3 * x + 1.7 * z).sin() + b[1] * (2.9 * y - 2.1 * x).cos() + b[2] * (3.7 * z + 1.3 * y).sin();
        x * x + y * y + z * z + 2.0 * waves + b[3] * x * y + b[4] * y * z + b[5] * x * z
    }

    fn holds(&self, at: [f64; 3]) -> bool {
        self.level(at) < 1.0
    }
}

/// A piece of a vessel: a cone from one point to another.
struct Tube {
    from: [f64; 3],
    to: [f64; 3],
    radii: [f64; 2],
}

impl Tube {
    fn holds(&self, at: [f64; 3]) -> bool {
        let along: [f64; 3] = std::array::from_fn(|a| self.to[a] - self.from[a]);
        let off: [f64; 3] = std::array::from_fn(|a| at[a] - self.from[a]);
        let dot = |a: &[f64; 3], b: &[f64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
        let part = (dot(&off, &along) / dot(&along, &along).max(1e-9)).clamp(0.0, 1.0);
        let rest: [f64; 3] = std::array::from_fn(|a| off[a] - part * along[a]);
        let radius = self.radii[0] + part * (self.radii[1] - self.radii[0]);
        dot(&rest, &rest) < radius * radius
    }
}

/// One synthetic patient, in mm towards right, front, head.
struct Chest {
    body: Blob,
    /// Left lung, right lung.
    lungs: [Blob; 2],
    heart: Blob,
    vessels: Vec<Tube>,
    /// Collapsed lung: flat, whereas the tumour is round.
    plate: Blob,
    tumour: Blob,
    /// The side of the tumour.
    side: usize,
    air: f64,
    soft: f64,
    blood: f64,
    mass: f64,
}

impl Chest {
    fn new(draw: &Draw) -> Self {
        let lungs = [
            Blob::new(draw, [-74.0, -4.0, 4.0], [56.0, 82.0, 112.0], 0.08, 0.04),
            Blob::new(draw, [74.0, -4.0, 0.0], [60.0, 84.0, 112.0], 0.08, 0.04),
        ];
        let side = usize::from(draw.happens(0.5));
        let spot = |deepest: f64, of: &Blob| -> [f64; 3] {
            let (turn, lift) = (draw.between(0.0, std::f64::consts::TAU), draw.between(-0.8, 0.8));
            let depth = draw.between(0.15, deepest);
            let flat = (1.0 - lift * lift).sqrt();
            let unit = [flat * turn.cos(), flat * turn.sin(), lift];
            std::array::from_fn(|a| of.center[a] + depth * unit[a] * of.radii[a])
        };
        // From a nodule to a mass; some are at the wall of the lung.
        let radius = draw.between(9.0, 30.0);
        let tumour = Blob::new(draw, spot(0.8, &lungs[side]), [radius; 3], 0.15, 0.12);
        let other = &lungs[1 - side];
        let flat = usize::from(draw.happens(0.5));
        let mut radii = [28.0, 34.0, 30.0];
        radii[2 * flat] = 4.5;
        let plate = Blob::new(draw, spot(0.6, other), radii, 0.15, 0.02);
        let mut vessels = Vec::new();
        for lung in &lungs {
            let [x, y, z] = lung.center;
            let hilum = [x - x.signum() * 44.0, y + 4.0, z + draw.between(-8.0, 8.0)];
            for branch in 0..5 {
                let turn = f64::from(branch) * 1.26 + draw.between(-0.3, 0.3);
                let aim = [x.signum() * draw.between(0.5, 0.9), 0.75 * turn.cos(), turn.sin()];
                grow(draw, &mut vessels, hilum, aim, draw.between(6.0, 8.5), 3);
            }
        }
        let blood = draw.between(30.0, 60.0);
        Chest {
            body: Blob::new(draw, [0.0, 0.0, 0.0], [172.0, 122.0, 900.0], 0.03, 0.0),
            lungs,
            heart: Blob::new(draw, [-22.0, 26.0, -48.0], [58.0, 44.0, 52.0], 0.1, 0.03),
            vessels,
            plate,
            tumour,
            side,
            air: draw.between(-890.0, -840.0),
            soft: draw.between(30.0, 50.0),
            blood,
            mass: blood + draw.between(-15.0, 15.0),
        }
    }

    /// HU and region of a point.
    fn at(&self, at: [f64; 3]) -> (f64, u8) {
        let depth = self.body.level(at);
        if depth >= 1.0 {
            return (-1000.0, 0);
        }
        // A ring of bone around the cord.
        let [x, y, _] = at;
        let from_cord = ((x * x) + (y + 84.0) * (y + 84.0)).sqrt();
        match from_cord {
            d if d < 7.0 => return (35.0, 4),
            d if d < 17.0 => return (320.0, 0),
            _ => {}
        }
        if self.heart.holds(at) {
            return (self.blood, 0);
        }
        let Some(side) = self.lungs.iter().position(|lung| lung.holds(at)) else {
            return match depth > 0.88 {
                true => (-100.0, 0),
                false => (self.soft, 0),
            };
        };
        if side == self.side && self.tumour.holds(at) {
            return (self.mass, 1);
        }
        let region = side as u8 + 2;
        match self.plate.holds(at) || self.vessels.iter().any(|tube| tube.holds(at)) {
            true => (self.blood, region),
            false => (self.air, region),
        }
    }
}

/// A vessel that branches repeatedly.
fn grow(draw: &Draw, vessels: &mut Vec<Tube>, from: [f64; 3], aim: [f64; 3], radius: f64, splits: u32) {
    let length = draw.between(20.0, 34.0);
    let norm = aim.iter().map(|v| v * v).sum::<f64>().sqrt().max(1e-9);
    let to: [f64; 3] = std::array::from_fn(|a| from[a] + aim[a] / norm * length);
    vessels.push(Tube { from, to, radii: [radius, 0.8 * radius] });
    if splits > 0 {
        for _ in 0..2 {
            let turned = aim.map(|v| v / norm + draw.between(-0.6, 0.6));
            grow(draw, vessels, to, turned, 0.7 * radius, splits - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> LungOptions {
        LungOptions { size: 48, ..LungOptions::default() }
    }

    fn milliliters(grid: &Grid, voxels: usize) -> f64 {
        voxels as f64 * grid.spacing().iter().product::<f64>() / 1000.0
    }

    #[test]
    fn every_chest_has_a_tumour_and_two_lungs_of_plausible_volume() {
        for case in 0..12 {
            let (_, labels, grid) = lung_case(case, &small());
            let count = |label: f32| labels.iter().filter(|v| **v == label).count();
            let tumour = milliliters(&grid, count(1.0));
            assert!((0.8..220.0).contains(&tumour), "case {case}: {tumour} ml");
            for lung in [2.0, 3.0] {
                let volume = milliliters(&grid, count(lung));
                assert!((1000.0..3500.0).contains(&volume), "case {case}: {volume} ml");
            }
            assert!(count(4.0) > 0);
        }
    }

    /// The best intensity window within the lungs, where the lungs are known.
    #[test]
    fn a_threshold_does_not_find_it() {
        let mut worst = 0.0_f64;
        for case in 0..6 {
            let (values, labels, _) = lung_case(case, &LungOptions::default());
            let tumour = labels.iter().filter(|v| **v == 1.0).count();
            for low in [-500.0, -200.0, -50.0, 0.0] {
                let (mut both, mut picked) = (0, 0);
                for (value, label) in values.iter().zip(&labels).filter(|(_, l)| (1.0..=3.0).contains(*l)) {
                    if *value > low && *value < 120.0 {
                        picked += 1;
                        both += usize::from(*label == 1.0);
                    }
                }
                worst = worst.max(2.0 * f64::from(both as u32) / (picked + tumour) as f64 / 6.0);
            }
        }
        assert!(worst < 0.6, "a threshold within known lungs reaches Dice {worst}");
    }

    #[test]
    fn cases_differ_and_a_seed_repeats() {
        let first = |case, seed| lung_case(case, &LungOptions { size: 32, seed, ..LungOptions::default() }).0;
        assert_eq!(first(2, 7), first(2, 7));
        assert_ne!(first(2, 7), first(3, 7));
        assert_ne!(first(2, 7), first(2, 8));
    }

    #[test]
    fn a_folder_reads_back_as_dicom_with_one_case_for_each_patient() {
        let dir = tempfile::tempdir().expect("a folder");
        lung(dir.path(), 4, &LungOptions { size: 32, ..LungOptions::default() }).expect("written");
        let items = hearth_datasets::dicom_items(dir.path()).expect("cases");
        let patients: Vec<&str> = items.iter().map(|i| i.case.split('/').next().expect("a patient")).collect();
        assert_eq!(patients, ["LUNG1-001", "LUNG1-002", "LUNG1-003", "LUNG1-004"]);
        for (case, item) in items.iter().enumerate() {
            let (values, labels, _) = lung_case(case, &LungOptions { size: 32, ..LungOptions::default() });
            let image = hearth_io::read_image(&item.files["image"]).expect("a volume");
            assert_eq!(image.to_vec(), values);
            let options = hearth_io::ReadOptions::default()
                .segments(vec!["GTV-1".to_owned()])
                .aliases([("GTV-1".to_owned(), vec!["GTV*".to_owned()])])
                .reference(&item.files["image"]);
            let drawn = hearth_io::read_image_with(&item.files["seg"], &options).expect("a label map");
            let tumour: Vec<f32> = labels.iter().map(|v| f32::from(u8::from(*v == 1.0))).collect();
            assert_eq!(drawn.to_vec(), tumour, "{}", item.case);
        }
        assert!(items[2].files["seg"].to_string_lossy().contains("Segmentation"));
    }

    #[test]
    fn a_size_that_makes_no_sense_is_refused() {
        assert!(lung("nowhere", 1, &LungOptions { size: 2, ..LungOptions::default() }).is_err());
    }
}
