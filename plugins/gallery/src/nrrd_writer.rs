//! A Hearth plugin with a writer of NRRD: a text header (`.nhdr`) and the values in a file next to it (`.raw`), as
//! 3D Slicer, ITK and Teem read them (<https://teem.sourceforge.net/nrrd/format.html>).

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use hearth_plugin::component::{Array, Writer};
use hearth_plugin::{Fault, HandlerError, NoOptions, export_components};

/// Writes images of f32.
pub struct Nhdr;

impl Nhdr {
    /// The writer, which has no options.
    ///
    /// # Errors
    /// None.
    pub fn new(_: NoOptions) -> Result<Self, Fault> {
        Ok(Self)
    }
}

impl Writer for Nhdr {
    fn endings(&self) -> Vec<String> {
        vec![".nhdr".to_owned()]
    }

    fn sides(&self) -> Vec<String> {
        vec![".raw".to_owned()]
    }

    fn write(&self, image: Array<'_>, path: &Path, case: &str) -> Result<Vec<PathBuf>, HandlerError> {
        let [channels, x, y, z] = image.shape[..] else {
            return Err(HandlerError::new(format!("expected an image [C, X, Y, Z], not {:?}", image.shape)));
        };
        let data = path.with_extension("raw");
        let Some(data_name) = data.file_name().and_then(|name| name.to_str()) else {
            return Err(HandlerError::new(format!("{}: the name is not Unicode", path.display())));
        };
        // The columns of the affine are the steps along the axes, in mm.
        let vector = |column: usize| {
            let [a, b, c] = [0, 1, 2].map(|row| image.affine[row][column]);
            format!("({a},{b},{c})")
        };
        let several = channels > 1;
        let channel = |word: &str| if several { format!(" {word}") } else { String::new() };
        let header = [
            "NRRD0005".to_owned(),
            format!("# {}", case.replace(['\r', '\n'], " ")),
            "type: float".to_owned(),
            format!("dimension: {}", if several { 4 } else { 3 }),
            "space: right-anterior-superior".to_owned(),
            format!("sizes:{} {x} {y} {z}", channel(&channels.to_string())),
            format!("space directions:{} {} {} {}", channel("none"), vector(0), vector(1), vector(2)),
            format!("kinds:{} domain domain domain", channel("vector")),
            "endian: little".to_owned(),
            "encoding: raw".to_owned(),
            format!("space origin: {}", vector(3)),
            format!("data file: {data_name}\n"),
        ];
        // The first axis is the fastest one: channels, then x.
        let mut bytes = Vec::with_capacity(image.values.len() * 4);
        for voxel in (0..z).flat_map(|k| (0..y).flat_map(move |j| (0..x).map(move |i| (i * y + j) * z + k))) {
            for channel in 0..channels {
                bytes.extend(image.values[channel * x * y * z + voxel].to_le_bytes());
            }
        }
        // A file of someone else stays as it is.
        fs::File::create_new(&data)?.write_all(&bytes)?;
        fs::File::create_new(path)?.write_all(header.join("\n").as_bytes())?;
        Ok(vec![path.to_owned(), data])
    }
}

export_components!("nrrd-writer", needs: [FILES], {
    "NRRD with a separate header, for 3D Slicer and ITK." writer Nhdr(NoOptions) = Nhdr::new;
});
