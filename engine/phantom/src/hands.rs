//! Radiographs of hands, as small pictures like those of `MedNIST`'s class `Hand`.

use std::path::Path;

use derive_setters::Setters;
use hearth_datasets::{DataError, Progress};
use hearth_image::affine::IDENTITY;
use hearth_image::{Image, host_device};
use hearth_io::writers::{WriteOptions, write_image};
use hearth_transforms::{Draw, DrawKey};

use crate::decathlon_folder::{digits, make};

/// Options of the pictures.
#[derive(Clone, Debug, Setters)]
#[non_exhaustive]
pub struct HandsOptions {
    /// Number of pixels along each side, 16 or more.
    pub size: usize,
    /// The seed for all pictures.
    pub seed: u64,
    /// How progress is shown.
    pub progress: Progress,
}

impl Default for HandsOptions {
    fn default() -> Self {
        Self { size: 64, seed: 0, progress: Progress::None }
    }
}

/// Writes pictures `hand_00.png` and so on into a folder.
///
/// # Errors
/// If an option is out of range, or a file cannot be written.
pub fn hands(dir: &Path, cases: usize, options: &HandsOptions) -> Result<(), DataError> {
    if options.size < 16 {
        let what = format!("pictures of {} pixels are too small for a hand; give 16 or more", options.size);
        return Err(DataError::Option(what));
    }
    make(dir)?;
    let bar = options.progress.start("phantom", cases as u64);
    let width = digits(cases);
    for case in 0..cases {
        let image = hands_case(case, options);
        let path = dir.join(format!("hand_{case:0width$}.png"));
        write_image(&path, &image, &WriteOptions::default().scale(255.0))
            .map_err(|error| DataError::List { path, what: error.to_string() })?;
        bar.advance();
    }
    bar.finish();
    Ok(())
}

/// Draws one picture, `[1, size, size]`, from 0 (air) to 1: x to the right, y down.
pub fn hands_case(case: usize, options: &HandsOptions) -> Image {
    let size = options.size;
    let draw = DrawKey::new(options.seed, 0, 0).draw(&format!("hands phantom {case}"), 0, 0);
    let hand = Hand::new(&draw);
    let pixel = 2.0 / size as f64;
    let mut values = Vec::with_capacity(size * size);
    for x in 0..size {
        for y in 0..size {
            let at = [x, y].map(|i| (i as f64 + 0.5) * pixel - 1.0);
            values.push(hand.at(at, pixel) as f32);
        }
    }
    draw.part(1).add_normal(&mut values, 0.0, 0.01);
    for value in &mut values {
        *value = value.clamp(0.0, 1.0);
    }
    Image::from_values(values, [1, size, size, 1], IDENTITY, &host_device()).with_spatial_dims(2)
}

type Point = [f64; 2];

/// A line with round ends of different thickness.
struct Rod {
    from: Point,
    to: Point,
    radii: [f64; 2],
}

impl Rod {
    /// The distance of a point from the surface; negative inside.
    fn distance(&self, [x, y]: Point) -> f64 {
        let [dx, dy] = [self.to[0] - self.from[0], self.to[1] - self.from[1]];
        let along = ((x - self.from[0]) * dx + (y - self.from[1]) * dy) / (dx * dx + dy * dy);
        let along = along.clamp(0.0, 1.0);
        let nearest = [self.from[0] + along * dx, self.from[1] + along * dy];
        let radius = self.radii[0] + along * (self.radii[1] - self.radii[0]);
        (x - nearest[0]).hypot(y - nearest[1]) - radius
    }
}

/// A hand with its fingers up, in coordinates from -1 to 1.
struct Hand {
    turn: f64,
    scale: f64,
    shift: Point,
    tissue: Vec<Rod>,
    bones: Vec<Rod>,
    /// Intensities of air, tissue and bone.
    looks: [f64; 3],
}

/// Each finger, from the thumb on: its start, its angle from upright in degrees, its length.
const FINGERS: [(Point, f64, f64); 5] = [
    ([-0.27, 0.42], -48.0, 0.50),
    ([-0.24, 0.06], -13.0, 0.58),
    ([-0.08, 0.02], -3.0, 0.68),
    ([0.08, 0.05], 6.0, 0.62),
    ([0.23, 0.13], 17.0, 0.46),
];

impl Hand {
    fn new(draw: &Draw) -> Self {
        let vary = |part: f64| 1.0 + draw.between(-part, part);
        let (spread, length, thick) = (vary(0.35), vary(0.12), vary(0.12));
        let wrist = [0.0, 0.62];
        let mut tissue = vec![
            Rod { from: [0.0, 0.22], to: wrist, radii: [0.33, 0.22] },
            Rod { from: wrist, to: [0.0, 1.4], radii: [0.19, 0.22] },
        ];
        // Radius and ulna.
        let mut bones = vec![
            Rod { from: [-0.09, 0.80], to: [-0.11, 1.4], radii: [0.075, 0.055] },
            Rod { from: [0.11, 0.82], to: [0.12, 1.4], radii: [0.06, 0.045] },
        ];
        // The carpus.
        for [x, y] in [[-0.13, 0.66], [0.0, 0.63], [0.12, 0.66], [-0.06, 0.54], [0.07, 0.54]] {
            bones.push(Rod { from: [x, y], to: [x + 0.015, y + 0.02], radii: [0.055, 0.055] });
        }
        for (index, (base, angle, long)) in FINGERS.into_iter().enumerate() {
            let angle = (angle * spread + draw.between(-4.0, 4.0)).to_radians();
            let long = long * length * vary(0.06);
            let along = |part: f64| [base[0] + part * long * angle.sin(), base[1] - part * long * angle.cos()];
            let (radius, bone) = (0.085 * thick, 0.036 * thick);
            tissue.push(Rod { from: base, to: along(1.0), radii: [radius, 0.75 * radius] });
            // The metacarpal, then the phalanges: two in the thumb, three in each finger.
            let root = [base[0] * 0.45, 0.48];
            bones.push(Rod { from: root, to: [base[0] * 0.95, base[1] + 0.04], radii: [bone, 1.15 * bone] });
            let joints: &[f64] = if index == 0 { &[0.04, 0.55, 0.96] } else { &[0.06, 0.48, 0.77, 0.98] };
            for pair in joints.windows(2) {
                let (from, to) = (along(pair[0] + 0.03), along(pair[1] - 0.03));
                bones.push(Rod { from, to, radii: [bone, 0.75 * bone] });
            }
        }
        Self {
            turn: draw.between(-12.0, 12.0).to_radians(),
            scale: 0.92 * vary(0.06),
            shift: [draw.between(-0.06, 0.06), draw.between(-0.06, 0.06)],
            tissue,
            bones,
            looks: [0.04, draw.between(0.28, 0.40), draw.between(0.72, 0.9)],
        }
    }

    fn at(&self, [x, y]: Point, pixel: f64) -> f64 {
        let [x, y] = [(x - self.shift[0]) / self.scale, (y - self.shift[1]) / self.scale];
        let (sin, cos) = self.turn.sin_cos();
        let point = [cos * x + sin * y, cos * y - sin * x];
        let inside = |rods: &[Rod]| {
            let distance = rods.iter().map(|rod| rod.distance(point)).fold(f64::INFINITY, f64::min);
            (0.5 - distance * self.scale / pixel).clamp(0.0, 1.0)
        };
        let [air, tissue, bone] = self.looks;
        let soft = air + (tissue - air) * inside(&self.tissue);
        soft + (bone - soft) * inside(&self.bones)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_fills_a_part_of_its_picture_and_has_bones() {
        let options = HandsOptions::default();
        for case in 0..8 {
            let values = hands_case(case, &options).to_vec();
            let share = |least: f32| values.iter().filter(|v| **v > least).count() as f64 / values.len() as f64;
            assert!((0.12..0.4).contains(&share(0.2)), "tissue {}", share(0.2));
            assert!((0.04..0.25).contains(&share(0.55)), "bone {}", share(0.55));
        }
        assert_eq!(hands_case(3, &options).to_vec(), hands_case(3, &options).to_vec());
        assert_ne!(hands_case(3, &options).to_vec(), hands_case(4, &options).to_vec());
    }

    #[test]
    fn pictures_too_small_are_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = hands(folder.path(), 1, &HandsOptions::default().size(8)).expect_err("too small").to_string();
        assert!(error.contains("8 pixels") && error.contains("16"), "{error}");
    }
}
