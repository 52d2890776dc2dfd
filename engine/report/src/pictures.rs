//! Pictures of cases, scaled so that a page stays small enough to send.

use std::io::Cursor;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use libjpeg_turbo_rs::{Encoder, PixelFormat};

use crate::error::ReportError;

/// The end of the file names that `hearth predict --picture` writes.
const END: &str = "_picture.png";

/// The widths that are tried for pictures that do not fit at full size.
const WIDTHS: [u32; 5] = [1200, 900, 640, 480, 320];

/// The quality of pictures that are scaled down.
const QUALITY: u8 = 82;

/// The maximum side length of a picture that is read.
const MAX_SIDE: u32 = 20_000;

/// The maximum memory for decoding a picture, in bytes.
const MAX_MEMORY: usize = 1 << 30;

/// A picture of a case: an outline over the image, or scores next to it.
#[derive(Clone, Debug)]
pub struct Overlay {
    /// The index of the run in the report, from 0.
    pub run: usize,
    /// The case's name.
    pub case: String,
    /// The picture, as a PNG file.
    pub png: Vec<u8>,
    /// A description of the picture, also for screen readers.
    pub caption: String,
}

/// A picture in the form that is embedded in the page.
pub struct Embedded {
    /// The index of the run.
    pub run: usize,
    /// The case's name.
    pub case: String,
    /// A description of the picture.
    pub caption: String,
    /// The displayed width and height.
    pub size: [u32; 2],
    /// `data:image/png;base64,...`
    pub source: String,
}

/// Reads the pictures that `hearth predict --picture -o DIR` wrote, including those in subfolders. The
/// case's name is the path without `_picture.png`.
///
/// # Errors
/// A folder or a picture that cannot be read.
pub fn overlays_in(folder: &Path, run: usize) -> Result<Vec<Overlay>, ReportError> {
    let mut files = Vec::new();
    walk(folder, &mut files)?;
    files.sort_unstable();
    let read = |path: &std::path::PathBuf| {
        let inner = path.strip_prefix(folder).unwrap_or(path).to_string_lossy().replace('\\', "/");
        let case = inner.strip_suffix(END).unwrap_or(&inner).to_owned();
        let png = hearth_files::read(path).map_err(|error| ReportError::io(path, error))?;
        let caption = "the prediction over the image, with the label where it is known".to_owned();
        Ok(Overlay { run, case, png, caption })
    };
    files.iter().map(read).collect()
}

fn walk(folder: &Path, files: &mut Vec<std::path::PathBuf>) -> Result<(), ReportError> {
    for entry in std::fs::read_dir(folder).map_err(|error| ReportError::io(folder, error))? {
        let entry = entry.map_err(|error| ReportError::io(folder, error))?;
        // A link may lead back to a parent folder.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), files)?;
        } else if entry.file_name().to_string_lossy().ends_with(END) {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// The pictures to embed, and notes about those that are left out. If they exceed `budget` bytes in
/// total, each is scaled down to its share.
pub fn embed(overlays: &[Overlay], budget: usize) -> (Vec<Embedded>, Vec<String>) {
    // Base64 is a third longer than the bytes.
    let budget = budget / 4 * 3;
    let whole = overlays.iter().map(|overlay| overlay.png.len()).sum::<usize>() <= budget;
    let share = budget / overlays.len().max(1);
    let (mut embedded, mut notes) = (Vec::new(), Vec::new());
    for overlay in overlays {
        let made = decoded(&overlay.png).and_then(|image| match whole || overlay.png.len() <= share {
            true => Ok(([image.width, image.height], url("png", &overlay.png))),
            false => scaled(&image, share),
        });
        match made {
            Ok((size, source)) => embedded.push(Embedded {
                run: overlay.run,
                case: overlay.case.clone(),
                caption: overlay.caption.clone(),
                size,
                source,
            }),
            Err(why) => notes.push(format!("The picture of {} is left out: {why}", overlay.case)),
        }
    }
    (embedded, notes)
}

/// A picture of red, green and blue bytes.
struct Rgb {
    width: u32,
    height: u32,
    bytes: Vec<u8>,
}

fn decoded(png: &[u8]) -> Result<Rgb, String> {
    let unreadable = |error: png::DecodingError| format!("it is not a readable PNG ({error})");
    let limits = png::Limits { bytes: MAX_MEMORY };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(png), limits);
    decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::STRIP_16);
    let mut reader = decoder.read_info().map_err(unreadable)?;
    let (width, height) = (reader.info().width, reader.info().height);
    let size = reader.output_buffer_size().filter(|bytes| *bytes <= MAX_MEMORY && width.max(height) <= MAX_SIDE);
    let mut pixels = vec![0; size.ok_or_else(|| format!("it has {width} x {height} pixels, which is too large"))?];
    let frame = reader.next_frame(&mut pixels).map_err(unreadable)?;
    pixels.truncate(frame.buffer_size());
    let samples = frame.color_type.samples();
    let bytes = match samples {
        3 => pixels,
        // Transparency is left out.
        4 => pixels.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
        _ => pixels.chunks_exact(samples).flat_map(|pixel| [pixel[0]; 3]).collect(),
    };
    Ok(Rgb { width, height, bytes })
}

impl Rgb {
    /// The picture at a smaller width: each pixel is the mean of the area that it covers.
    fn narrowed(&self, width: u32) -> Self {
        let height = (u64::from(self.height) * u64::from(width) / u64::from(self.width)).max(1) as u32;
        let mut bytes = Vec::with_capacity((width * height * 3) as usize);
        let covered = |at: u32, of: u32, from: u32| {
            let edge = |at: u32| (u64::from(at) * u64::from(from) / u64::from(of)) as usize;
            edge(at)..edge(at + 1).max(edge(at) + 1)
        };
        for y in 0..height {
            let rows = covered(y, height, self.height);
            for x in 0..width {
                let columns = covered(x, width, self.width);
                let (count, mut sums) = (rows.len() * columns.len(), [0_usize; 3]);
                for row in rows.clone() {
                    let from = row * self.width as usize;
                    for pixel in self.bytes[3 * (from + columns.start)..3 * (from + columns.end)].chunks_exact(3) {
                        sums.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += usize::from(*value));
                    }
                }
                bytes.extend(sums.map(|sum| ((sum + count / 2) / count) as u8));
            }
        }
        Self { width, height, bytes }
    }

    fn jpeg(&self) -> Result<Vec<u8>, String> {
        let encoder = Encoder::new(&self.bytes, self.width as usize, self.height as usize, PixelFormat::Rgb);
        encoder.quality(QUALITY).encode().map_err(|error| error.to_string())
    }
}

/// The largest of some sizes that fits the share.
fn scaled(image: &Rgb, share: usize) -> Result<([u32; 2], String), String> {
    for width in WIDTHS {
        let small = (image.width > width).then(|| image.narrowed(width));
        let small = small.as_ref().unwrap_or(image);
        let bytes = small.jpeg().map_err(|error| format!("it cannot be scaled down ({error})"))?;
        if bytes.len() <= share {
            return Ok(([small.width, small.height], url("jpeg", &bytes)));
        }
    }
    Err("there are too many for one page; give fewer, or those of the worst cases".to_owned())
}

fn url(kind: &str, bytes: &[u8]) -> String {
    format!("data:image/{kind};base64,{}", STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_pictures::Canvas;

    fn overlay(width: usize) -> Overlay {
        let mut canvas = Canvas::new(width, width, [0, 0, 0]);
        for at in 0..width {
            canvas.text(at * 7 % width, at, 9.0, [200, (at % 250) as u8, 90], "a<b");
        }
        Overlay { run: 0, case: "a".into(), png: canvas.png().expect("a picture"), caption: "it".into() }
    }

    #[test]
    fn pictures_fit_their_budget() {
        let all: Vec<Overlay> = (0..4).map(|_| overlay(600)).collect();
        let length = all[0].png.len();
        let (whole, notes) = embed(&all, length * 8);
        assert!(whole.iter().all(|one| one.source.starts_with("data:image/png;base64,") && one.size == [600, 600]));
        assert!(notes.is_empty());
        let (small, notes) = embed(&all, 200_000);
        assert_eq!((small.len(), notes.len()), (4, 0));
        assert!(small.iter().map(|one| one.source.len()).sum::<usize>() <= 200_000);
        let (none, notes) = embed(&all, 4000);
        assert!(none.is_empty() && notes.len() == 4, "{notes:?}");
    }

    #[test]
    fn a_narrowed_picture_has_the_means_of_areas() {
        // Columns of 10, 20, 60, 80 in two rows; two columns become one.
        let bytes = [10, 20, 60, 80].repeat(2).into_iter().flat_map(|value| [value, 0, 255 - value]).collect();
        let small = Rgb { width: 4, height: 2, bytes }.narrowed(2);
        assert_eq!((small.width, small.height, &small.bytes[..]), (2, 1, &[15, 0, 240, 70, 0, 185][..]));
        let jpeg = small.jpeg().expect("a JPEG");
        assert_eq!(jpeg[..3], [0xff, 0xd8, 0xff]);
    }

    #[test]
    fn what_is_no_picture_is_named() {
        let broken = Overlay { png: b"<svg onload=alert(1)>".to_vec(), ..overlay(20) };
        let (embedded, notes) = embed(&[broken], 1_000_000);
        assert!(embedded.is_empty() && notes[0].contains("not a readable PNG"), "{notes:?}");
    }
}
