//! Synthetic whole-slide images for experiments: stained tissue with tumours, as a folder of
//! pyramids with annotations.
//!
//! Normal tissue has small nuclei close together; a tumour has large ones further apart. Both cover
//! the same fraction of the area in the same colours, so the mean colour does not separate them: a
//! network must use texture. Folds (dark bands), holes and pen strokes occur on both kinds of
//! slides, and stains vary between slides.

use std::f64::consts::TAU;
use std::path::{Path, PathBuf};

use derive_setters::Setters;
use hearth_datasets::{DataError, Progress};
use hearth_slides::{Annotations, Area, Feature, Pick, PyramidOptions, Shape, geojson, pyramid};
use hearth_transforms::{Draw, DrawKey};
use rayon::prelude::*;

/// Options of the slides.
#[derive(Clone, Debug, Setters)]
#[non_exhaustive]
pub struct PathologyOptions {
    /// Number of pixels along each side of level 0: 512 to 16384.
    pub size: usize,
    /// The same seed yields the same slides.
    pub seed: u64,
    /// How progress is shown.
    pub progress: Progress,
}

impl Default for PathologyOptions {
    fn default() -> Self {
        PathologyOptions { size: 4096, seed: 0, progress: Progress::None }
    }
}

/// Micrometres per pixel of level 0.
const MPP: f64 = 1.0;

/// The class of the annotations, and ASAP's group.
const CLASS: &str = "tumor";

/// Writes slides into a folder, alternately with tumours (`tumor_00.tif` with `tumor_00.xml`
/// (ASAP), `tumor_02.tif` with `tumor_02.geojson`, and so on) and without (`normal_01.tif`).
///
/// # Errors
/// If the size is out of range or an I/O error occurs.
pub fn pathology(dir: impl AsRef<Path>, cases: usize, options: &PathologyOptions) -> Result<(), DataError> {
    let dir = dir.as_ref();
    if !(512..=16384).contains(&options.size) {
        return Err(DataError::Option(format!("a size of {}, expected 512 to 16384", options.size)));
    }
    std::fs::create_dir_all(dir).map_err(|source| DataError::Io { path: dir.to_owned(), source })?;
    let bar = options.progress.start("phantom", cases as u64);
    let width = cases.saturating_sub(1).to_string().len().max(2);
    let write = |path: PathBuf, bytes: Vec<u8>| {
        hearth_files::replace(&path, bytes).map_err(|source| DataError::Io { path, source })
    };
    for case in 0..cases {
        let (pixels, tumours) = pathology_case(case, options);
        let kind = if tumours.is_empty() { "normal" } else { "tumor" };
        let at = |end: &str| dir.join(format!("{kind}_{case:0width$}.{end}"));
        let pyramid_options = PyramidOptions {
            mpp: Some(MPP),
            description: "Made-up slide; no patient's data".to_owned(),
            ..PyramidOptions::default()
        };
        let file = pyramid(&pixels, options.size, options.size, &pyramid_options);
        write(at("tif"), file.map_err(|error| DataError::Option(error.to_string()))?)?;
        match (tumours.is_empty(), case / 2 % 2) {
            (true, _) => {}
            (false, 0) => write(at("xml"), asap(&tumours).into_bytes())?,
            (false, _) => {
                let features: Vec<Feature> = tumours.into_iter().map(Feature::from).collect();
                write(at("geojson"), geojson(&features).into_bytes())?;
            }
        }
        bar.advance();
    }
    bar.finish();
    Ok(())
}

/// The pixels of a slide (RGB, row by row) and its tumours; every second slide has no tumours.
pub fn pathology_case(case: usize, options: &PathologyOptions) -> (Vec<u8>, Vec<Shape>) {
    let draw = DrawKey::new(options.seed, 0, 0).draw(&format!("slide phantom {case}"), 0, 0);
    let side = options.size as f64;
    let tissue: Vec<Blob> = [[0.33, 0.36], [0.62, 0.66]]
        .map(|[x, y]| {
            Blob::new(
                [side * (x + draw.between(-0.03, 0.03)), side * (y + draw.between(-0.03, 0.03))],
                side * draw.between(0.23, 0.28),
                &draw,
            )
        })
        .to_vec();
    let mut tumours = Vec::new();
    if case.is_multiple_of(2) {
        for piece in &tissue {
            let (turn, far) = (draw.between(0.0, TAU), piece.radius * draw.between(0.15, 0.4));
            let centre = [piece.centre[0] + far * turn.cos(), piece.centre[1] + far * turn.sin()];
            let blob = Blob::new(centre, piece.radius * draw.between(0.32, 0.45), &draw);
            tumours.push(Shape {
                name: format!("{CLASS} {}", tumours.len()),
                class: CLASS.into(),
                rings: vec![blob.ring(96)],
            });
        }
    }
    let annotations = Annotations { shapes: tumours.clone(), ..Annotations::default() };
    let area = Area::whole((options.size, options.size), (options.size, options.size));
    let marked = annotations.mask(&area, &Pick::default());
    let scene = Scene::new(&draw, tissue, side);
    let mut pixels = vec![0_u8; options.size * options.size * 3];
    pixels.par_chunks_mut(options.size * 3).zip(marked.par_chunks(options.size)).enumerate().for_each(
        |(y, (row, marked))| {
            for (x, (pixel, marked)) in row.chunks_exact_mut(3).zip(marked).enumerate() {
                pixel.copy_from_slice(&scene.at(x, y, *marked == 1));
            }
        },
    );
    (pixels, tumours)
}

/// A closed outline: a circle with added waves.
#[derive(Clone)]
struct Blob {
    centre: [f64; 2],
    radius: f64,
    /// Amplitude and phase of waves 2, 3, 4 and 5.
    waves: [[f64; 2]; 4],
}

impl Blob {
    fn new(centre: [f64; 2], radius: f64, draw: &Draw) -> Self {
        let waves = std::array::from_fn(|_| [draw.between(0.02, 0.09), draw.between(0.0, TAU)]);
        Blob { centre, radius, waves }
    }

    fn reach(&self, angle: f64) -> f64 {
        let waves = self.waves.iter().enumerate();
        self.radius * (1.0 + waves.map(|(i, [high, phase])| high * ((i + 2) as f64 * angle + phase).sin()).sum::<f64>())
    }

    fn contains(&self, x: f64, y: f64) -> bool {
        let (dx, dy) = (x - self.centre[0], y - self.centre[1]);
        let far = dx.hypot(dy);
        far < self.radius * 1.4 && far < self.reach(dy.atan2(dx))
    }

    fn ring(&self, count: usize) -> Vec<[f64; 2]> {
        let point = |i: usize| {
            let angle = i as f64 / count as f64 * TAU;
            let far = self.reach(angle);
            [self.centre[0] + far * angle.cos(), self.centre[1] + far * angle.sin()]
                .map(|v| (v * 100.0).round() / 100.0)
        };
        (0..count).map(point).collect()
    }
}

/// A line with a width, bent like an arc.
struct Stroke {
    from: [f64; 2],
    along: [f64; 2],
    length: f64,
    bend: f64,
    half: f64,
}

impl Stroke {
    fn new(draw: &Draw, side: f64, length: f64, half: f64) -> Self {
        let turn = draw.between(0.0, TAU);
        Stroke {
            from: [draw.between(0.15, 0.85) * side, draw.between(0.15, 0.85) * side],
            along: [turn.cos(), turn.sin()],
            length: length * side,
            bend: draw.between(-0.6, 0.6) / side,
            half: half * side,
        }
    }

    fn contains(&self, x: f64, y: f64) -> bool {
        let (dx, dy) = (x - self.from[0], y - self.from[1]);
        let (t, across) = (dx * self.along[0] + dy * self.along[1], dy * self.along[0] - dx * self.along[1]);
        (0.0..self.length).contains(&t) && (across - self.bend * t * t).abs() < self.half
    }
}

/// Nuclei on a jittered grid.
struct Nuclei {
    cell: f64,
    radius: f64,
    salt: u64,
}

impl Nuclei {
    /// The fraction of a pixel that a nucleus covers, 0 to 1.
    fn at(&self, x: f64, y: f64) -> f64 {
        let (column, row) = ((x / self.cell).floor() as i64, (y / self.cell).floor() as i64);
        let mut shown = 0.0_f64;
        for (i, j) in (-1..=1).flat_map(|i| (-1..=1).map(move |j| (column + i, row + j))) {
            let [a, b, c, d] = noise(i, j, self.salt);
            let centre = [(i as f64 + 0.2 + 0.6 * a) * self.cell, (j as f64 + 0.2 + 0.6 * b) * self.cell];
            let radius = self.radius * (0.8 + 0.4 * c);
            let (dx, dy) = (x - centre[0], y - centre[1]);
            if dx.abs().max(dy.abs()) > 2.0 * radius {
                continue;
            }
            // An ellipse with the circle's area.
            let (s, k) = (d * TAU).sin_cos();
            let far = ((dx * k + dy * s) / 1.15).hypot((dy * k - dx * s) * 1.15);
            shown = shown.max((radius + 0.5 - far).clamp(0.0, 1.0));
        }
        shown
    }
}

/// All structures of a slide.
struct Scene {
    tissue: Vec<Blob>,
    holes: Vec<Blob>,
    folds: Vec<Stroke>,
    pens: Vec<(Stroke, [f64; 3])>,
    normal: Nuclei,
    tumour: Nuclei,
    stroma: [f64; 3],
    nucleus: [f64; 3],
    salt: u64,
}

impl Scene {
    fn new(draw: &Draw, tissue: Vec<Blob>, side: f64) -> Self {
        let salt = draw.below(u64::MAX);
        let stain = |colour: [f64; 3]| colour.map(|v| v + draw.between(-8.0, 8.0));
        let holes = tissue
            .iter()
            .flat_map(|piece| (0..2).map(move |_| piece))
            .map(|piece| {
                let (turn, far) = (draw.between(0.0, TAU), piece.radius * draw.between(0.6, 0.8));
                let centre = [piece.centre[0] + far * turn.cos(), piece.centre[1] + far * turn.sin()];
                Blob::new(centre, piece.radius * draw.between(0.04, 0.09), draw)
            })
            .collect();
        let folds = (0..2).map(|_| Stroke::new(draw, side, 0.3, 0.004)).collect();
        let inks = [[40.0, 60.0, 170.0], [30.0, 120.0, 70.0], [35.0, 35.0, 40.0]];
        let pens = (0..2)
            .map(|_| (Stroke::new(draw, side, 0.22, 0.006), inks[draw.below(inks.len() as u64) as usize]))
            .collect();
        Scene {
            tissue,
            holes,
            folds,
            pens,
            // Equal fractions of the area: (3.2 / 12)^2 and (5.87 / 22)^2.
            normal: Nuclei { cell: 12.0, radius: 3.2, salt },
            tumour: Nuclei { cell: 22.0, radius: 5.87, salt: salt ^ 1 },
            stroma: stain([226.0, 160.0, 195.0]),
            nucleus: stain([115.0, 75.0, 150.0]),
            salt,
        }
    }

    fn at(&self, column: usize, row: usize, marked: bool) -> [u8; 3] {
        let (x, y) = (column as f64 + 0.5, row as f64 + 0.5);
        let [grain, other, ..] = noise(column as i64, row as i64, self.salt ^ 2);
        let shake = 10.0 * (grain + other - 1.0);
        let inside =
            self.tissue.iter().any(|piece| piece.contains(x, y)) && !self.holes.iter().any(|hole| hole.contains(x, y));
        let mut colour = [243.0, 241.0, 244.0];
        if inside {
            let nuclei = if marked { &self.tumour } else { &self.normal };
            let part = nuclei.at(x, y);
            // Slow variation of the stain, the same in both tissues.
            let slow = 8.0 * ((x / 310.0).sin() + (y / 270.0 + x / 800.0).cos());
            colour = std::array::from_fn(|c| (self.stroma[c] + slow) * (1.0 - part) + self.nucleus[c] * part);
            if self.folds.iter().any(|fold| fold.contains(x, y)) {
                // Two layers absorb twice.
                colour = colour.map(|v| v * v / 255.0);
            }
        }
        if let Some((_, ink)) = self.pens.iter().find(|(pen, _)| pen.contains(x, y)) {
            colour = std::array::from_fn(|c| colour[c] / 255.0 * ink[c] * 0.6 + ink[c] * 0.4);
        }
        colour.map(|v| (v + shake).round().clamp(0.0, 255.0) as u8)
    }
}

/// Four numbers from 0 to 1 for a grid position (splitmix64).
fn noise(i: i64, j: i64, salt: u64) -> [f64; 4] {
    let mut state =
        (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (j as u64).wrapping_mul(0xC2B2_AE3D_27D4_EB4F) ^ salt;
    let mut bits = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    };
    let (a, b) = (bits(), bits());
    let part = |word: u64| f64::from(word as u32) / f64::from(u32::MAX);
    [part(a), part(a >> 32), part(b), part(b >> 32)]
}

/// Annotations in ASAP's format.
fn asap(shapes: &[Shape]) -> String {
    let mut text = "<?xml version=\"1.0\"?>\n<ASAP_Annotations>\n\t<Annotations>\n".to_owned();
    for shape in shapes {
        let (name, class) = (&shape.name, &shape.class);
        text += &format!(
            "\t\t<Annotation Name=\"{name}\" Type=\"Polygon\" PartOfGroup=\"{class}\" Color=\"#F4FA58\">\n\t\t\t<Coordinates>\n"
        );
        for (order, [x, y]) in shape.rings.iter().flatten().enumerate() {
            text += &format!("\t\t\t\t<Coordinate Order=\"{order}\" X=\"{x}\" Y=\"{y}\" />\n");
        }
        text += "\t\t\t</Coordinates>\n\t\t</Annotation>\n";
    }
    text += &format!(
        "\t</Annotations>\n\t<AnnotationGroups>\n\t\t<Group Name=\"{CLASS}\" PartOfGroup=\"None\" Color=\"#00ff00\"><Attributes /></Group>\n\t</AnnotationGroups>\n</ASAP_Annotations>\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tumours_have_the_colour_of_tissue_and_another_texture() {
        let options = PathologyOptions::default().size(1024).seed(5);
        let (pixels, tumours) = pathology_case(0, &options);
        assert_eq!(tumours.len(), 2);
        assert!(pathology_case(1, &options).1.is_empty());
        assert_eq!(pathology_case(0, &options).0, pixels, "the seed decides");
        let annotations = Annotations { shapes: tumours, ..Annotations::default() };
        annotations.check((1024, 1024)).expect("on the slide");
        let area = Area::whole((1024, 1024), (1024, 1024));
        let marked = annotations.mask(&area, &Pick::default());
        // Tissue is found by its saturation, without pen and folds: neither very dark nor white.
        let tissue = |pixel: &[u8]| pixel[0] > 70 && i32::from(pixel[0]) - i32::from(pixel[1]) > 15;
        let mut sums = [[0.0; 4]; 2];
        let mut steps = [[0.0; 2]; 2];
        for (i, pixel) in pixels.chunks_exact(3).enumerate() {
            let kind = usize::from(marked[i]);
            if tissue(pixel) {
                (0..3).for_each(|c| sums[kind][c] += f64::from(pixel[c]));
                sums[kind][3] += 1.0;
                if let Some(next) = pixels.get(3 * (i + 6)..3 * (i + 6) + 3).filter(|next| tissue(next)) {
                    steps[kind][0] += (f64::from(next[0]) - f64::from(pixel[0])).powi(2);
                    steps[kind][1] += 1.0;
                }
            }
        }
        let mean = |kind: usize, c: usize| sums[kind][c] / sums[kind][3];
        for c in 0..3 {
            assert!((mean(0, c) - mean(1, c)).abs() < 6.0, "{} and {}", mean(0, c), mean(1, c));
        }
        let rough = |kind: usize| steps[kind][0] / steps[kind][1];
        assert!(rough(0) > 1.15 * rough(1), "{} and {}", rough(0), rough(1));
    }
}
