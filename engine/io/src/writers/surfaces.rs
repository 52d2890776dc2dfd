//! Writes labels as surfaces: STL and OBJ files for viewers, 3-D printers and planning tools.

use std::path::{Path, PathBuf};

use hearth_image::{Affine, Image};
use hearth_surface::{Mesh, Smoothing, Space, SurfaceError};

use super::layers::Layers;
use super::{Segment, WriteError};

/// Options of surfaces.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SurfaceOptions {
    /// Number of passes of Taubin smoothing; 0 keeps the voxels' steps.
    pub smoothing: usize,
    /// Fraction of the triangles that is removed, from 0 to less than 1.
    pub decimate: f64,
    /// Coordinate system of the file, which its header names.
    pub space: Space,
}

impl Default for SurfaceOptions {
    fn default() -> Self {
        SurfaceOptions { smoothing: 20, decimate: 0.0, space: Space::Lps }
    }
}

/// A surface that was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Path of the file.
    pub path: PathBuf,
    /// Name of the label.
    pub name: String,
    /// Number of triangles.
    pub triangles: usize,
    /// Enclosed volume in mm^3.
    pub volume: f64,
}

/// Writes the surface of each label of a map, or of each segment of several channels, into a separate
/// file: `liver.stl` stays `liver.stl` for one label, and becomes `liver_spleen.stl` and so on for
/// several. `segments` selects labels and their names; if it is empty, all labels are written, with
/// those names.
///
/// # Errors
/// If the name ends in neither `.stl` nor `.obj`, the segments do not suit the image's channels, no
/// label has a voxel, two names lead to the same file, or a file exists or cannot be written.
pub fn write_surfaces(
    path: impl AsRef<Path>,
    image: &Image,
    segments: &[Segment],
    options: &SurfaceOptions,
) -> Result<Vec<Written>, WriteError> {
    let path = path.as_ref();
    let format = |what: String| WriteError::Format { path: path.to_owned(), what };
    let end = path.extension().map(|end| end.to_string_lossy().to_lowercase()).unwrap_or_default();
    if !["stl", "obj"].contains(&end.as_str()) {
        return Err(format("expected a name that ends in .stl or .obj".to_owned()));
    }
    let layers = Layers::of(image, segments).map_err(format)?;
    let values = layers.image.to_vec();
    let size = image.shape().iter().product::<usize>();
    let layer = |segment: &Segment| &values[segment.layer.unwrap_or(0) * size..][..size];
    let present = |segment: &&Segment| layer(segment).contains(&(segment.label as f32));
    let all: Vec<&Segment> = layers.segments.iter().filter(present).collect();
    let chosen: Vec<Segment> = match segments {
        [] if image.channels() == 1 => {
            let named = |segment: &&Segment| Segment { name: segment.label.to_string(), ..(*segment).clone() };
            all.iter().map(named).collect()
        }
        [] => all.iter().map(|segment| (*segment).clone()).collect(),
        given => {
            let of_given = |given: &Segment| all.iter().copied().find(|found| found.is(given)).cloned();
            given.iter().filter_map(of_given).collect()
        }
    };
    if chosen.is_empty() {
        let labels: Vec<u32> = all.iter().map(|segment| segment.label).collect();
        let known = if labels.is_empty() { "it has none".to_owned() } else { format!("it has {labels:?}") };
        return Err(format(format!("the image has no voxel of these labels; {known}")));
    }
    let mut paths: Vec<PathBuf> = Vec::new();
    for segment in &chosen {
        let file = if chosen.len() == 1 { path.to_owned() } else { named(path, &segment.name, &end) };
        if paths.contains(&file) {
            return Err(format(format!("two labels would be written to {}; give them other names", file.display())));
        }
        if file.symlink_metadata().is_ok() {
            return Err(format(format!("{} exists already; remove it, or give another name", file.display())));
        }
        paths.push(file);
    }
    let mut written = Vec::new();
    for (segment, file) in chosen.iter().zip(paths) {
        let made = surface_bytes(layer(segment), image.shape(), &image.affine, segment, &end, options);
        let (bytes, mesh) = made.map_err(|error| format(error.to_string()))?;
        let io = |source| WriteError::Io { path: file.clone(), source };
        hearth_files::replace(&file, bytes).map_err(io)?;
        let (triangles, volume) = (mesh.faces().len(), mesh.volume());
        written.push(Written { path: file, name: segment.name.clone(), triangles, volume });
    }
    Ok(written)
}

/// Computes the surface of one label of a map `[X, Y, Z]`, Z fastest, as a file (`obj`, otherwise
/// `stl`) and as a mesh.
///
/// # Errors
/// Those of [`Mesh`].
pub fn surface_bytes(
    values: &[f32],
    shape: [usize; 3],
    affine: &Affine,
    segment: &Segment,
    end: &str,
    options: &SurfaceOptions,
) -> Result<(Vec<u8>, Mesh), SurfaceError> {
    let mut mesh = Mesh::of_label(values, shape, affine, segment.label as f32)?;
    if options.smoothing > 0 {
        mesh.smooth(Smoothing::default().iterations(options.smoothing))?;
    }
    mesh.decimate(options.decimate)?;
    let bytes = match end {
        "obj" => mesh.to_obj(&segment.name, options.space).into_bytes(),
        _ => mesh.to_stl(options.space),
    };
    Ok((bytes, mesh))
}

/// Lists the labels of a map, without the background.
pub(super) fn labels(values: &[f32]) -> Result<Vec<u32>, String> {
    if let Some(value) = values.iter().find(|v| !(**v >= 0.0 && v.fract() == 0.0 && **v <= u32::MAX as f32)) {
        return Err(format!("a voxel has the value {value}; expected labels, whole numbers from 0"));
    }
    let mut all: Vec<u32> = Vec::new();
    let mut last = 0.0;
    for value in values.iter().filter(|value| **value != 0.0) {
        if *value != last {
            last = *value;
            if let Err(place) = all.binary_search(&(*value as u32)) {
                all.insert(place, *value as u32);
            }
        }
    }
    Ok(all)
}

/// Converts a label's name to a part of a file name.
pub fn file_part(name: &str) -> String {
    let safe = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    name.chars().map(safe).collect()
}

/// Returns the file name for one of several labels.
fn named(path: &Path, name: &str, end: &str) -> PathBuf {
    let name = file_part(name);
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    path.with_file_name(format!("{stem}_{name}.{end}"))
}
