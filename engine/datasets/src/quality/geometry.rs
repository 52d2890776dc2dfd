//! Findings about the position of an image.

use hearth_image::{Affine, Image, affine};
use hearth_io::nifti::Header;

use super::{Finding, Kind, Severity};

/// The cosine of the angle between two axes above which a grid counts as sheared: 0.06 degrees from
/// a right angle.
const SHEAR: f64 = 1e-3;
/// The degrees between an axis and the nearest body axis above which a grid counts as oblique.
const OBLIQUE: f64 = 1.0;
/// The tolerance between two affines, as a fraction of the spacing.
const SAME: f64 = 1e-2;
/// The plausible voxel sizes of a medical image: a tenth of a micrometre to half a metre (in mm).
const SIZES: std::ops::Range<f64> = 1e-4..500.0;

pub(super) fn findings(image: &Image) -> Vec<Finding> {
    let n = image.meta.spatial_dims;
    let mut out = Vec::new();
    let grid = affine::restrict(&image.affine, n);
    let finite = grid.iter().flatten().all(|v| v.is_finite());
    if !finite || affine::inverse(&grid).is_none() {
        let what = if finite { "the affine can't be inverted" } else { "the affine has values that are not finite" };
        let advice = "set a valid affine in the file's header, or convert the image again from its source";
        out.push(Finding::new(Severity::Error, Kind::BadAffine, what).advice(advice));
    } else {
        axes(&grid, n, &mut out);
    }
    if let Some(header) = &image.meta.header {
        nifti(header, &image.affine, n, &mut out);
    }
    out
}

/// Findings about a valid affine.
fn axes(grid: &Affine, n: usize, out: &mut Vec<Finding>) {
    let sizes = &affine::spacing(grid)[..n];
    if let Some(size) = sizes.iter().find(|s| !SIZES.contains(*s)) {
        out.push(
            Finding::new(Severity::Error, Kind::BadSpacing, format!("a voxel of {size:e} mm"))
                .advice("correct the voxel size in the file's header; lengths are in millimetres"),
        );
    }
    let unit = |c: usize| -> [f64; 3] { std::array::from_fn(|r| grid[r][c] / sizes[c]) };
    let dot = |a: [f64; 3], b: [f64; 3]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
    let shear = pairs.map(|(a, b)| dot(unit(a), unit(b)).abs()).fold(0.0, f64::max);
    if shear > SHEAR {
        let angle = shear.min(1.0).asin().to_degrees();
        let what = format!("the grid is sheared: two axes are {angle:.2} degrees off a right angle");
        let advice = "resample it onto a straight grid (Spacing with diagonal = true), or correct the gantry tilt";
        out.push(Finding::new(Severity::Warning, Kind::Sheared, what).advice(advice));
    }
    let straight = |c: usize| unit(c).iter().map(|v| v.abs()).fold(0.0, f64::max).min(1.0).acos().to_degrees();
    let turn = (0..n).map(straight).fold(0.0, f64::max);
    if turn > OBLIQUE {
        let what = format!("the grid is oblique: an axis is {turn:.1} degrees off the nearest axis of the body");
        out.push(Finding::new(Severity::Note, Kind::Oblique, what));
    }
    let [x, y, z] = [unit(0), unit(1), if n == 3 { unit(2) } else { [0.0, 0.0, 1.0] }];
    let normal = [x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]];
    if n == 3 && dot(normal, z) < 0.0 {
        out.push(Finding::new(
            Severity::Note,
            Kind::Mirrored,
            "the grid is left-handed (common; Orientation turns it)",
        ));
    }
}

/// Contradictions within a NIfTI header.
fn nifti(header: &Header, used: &Affine, n: usize, out: &mut Vec<Finding>) {
    if !header.repaired.is_empty() {
        let axes: Vec<String> = header.repaired.iter().map(usize::to_string).collect();
        let what = format!("the header's voxel size of axis {} is 0, negative or NaN", axes.join(", "));
        let advice = "its absolute value, or 1, was used; write the right one into the header";
        out.push(Finding::new(Severity::Warning, Kind::BadSpacing, what).advice(advice));
    }
    for what in header.unusable() {
        let advice = "write a valid value into the header, or convert the image again from its source";
        out.push(Finding::new(Severity::Warning, Kind::BadHeader, what).advice(advice));
    }
    let (sform, qform) = (header.sform(), header.qform());
    // NaN counts as different.
    let differ = |by: f64| by.is_nan() || by > SAME;
    match (header.conflict(), header.sform_code > 0, header.qform_code > 0) {
        (Some(apart), ..) => {
            let one = if affine::distance(used, &qform) < affine::distance(used, &sform) { "qform" } else { "sform" };
            let what = format!("the header's sform and qform lie {apart:.2} voxels apart");
            let advice = format!("the {one} was used; other programs may take the other: write one of them into both");
            out.push(Finding::new(Severity::Warning, Kind::AffineConflict, what).advice(advice));
        }
        (None, false, false) => {
            let what = "the header has no affine (sform and qform codes are 0)";
            let advice = "left and right are a guess: set the affine, or convert the image again from its source";
            out.push(Finding::new(Severity::Warning, Kind::NoAffine, what).advice(advice));
        }
        _ => {}
    }
    let sizes = affine::spacing_in(used, n);
    let stated = &header.pixdim[1..=n];
    if let Some(axis) = (0..n).find(|a| differ((stated[*a] - sizes[*a]).abs() / sizes[*a])) {
        let what = format!(
            "the header's voxel size of axis {} is {:.4} mm, its affine's {:.4} mm",
            axis + 1,
            stated[axis],
            sizes[axis]
        );
        out.push(
            Finding::new(Severity::Warning, Kind::AffineConflict, what)
                .advice("the affine was used; correct the other (pixdim)"),
        );
    }
    let unit = match header.xyzt_units & 7 {
        1 => Some("metres"),
        3 => Some("micrometres"),
        _ => None,
    };
    if let Some(unit) = unit {
        let what = format!("the header states lengths in {unit}; they are read as millimetres");
        let advice = "rescale the affine to millimetres, or correct xyzt_units";
        out.push(Finding::new(Severity::Warning, Kind::Units, what).advice(advice));
    }
}
