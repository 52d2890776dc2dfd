//! Files that handlers add to the folder of a run: `attachments/HANDLER/NAME`.

use std::fs;
use std::path::{Path, PathBuf};

use hearth_engine::{Attach, Attachment, DType, HostError, HostTensor};
use hearth_pictures::Canvas;

/// The largest number of pixels of a picture.
const MAX_PIXELS: usize = 1 << 26;

/// A function that writes attachments into a run's folder. With several processes only the `first`
/// one writes.
pub fn writer(run: &Path, first: bool) -> Attach {
    let folder = run.join("attachments");
    Box::new(move |handler, name, attachment| {
        let end = match attachment {
            Attachment::File(_) => "",
            Attachment::Image(_) => ".png",
            Attachment::Text(_) => ".md",
        };
        if !first {
            return Ok(None);
        }
        let path = place(&folder, handler, name, end);
        write(&path, attachment)?;
        Ok(Some(path))
    })
}

fn write(path: &Path, attachment: &Attachment<'_>) -> Result<(), HostError> {
    let failed = |error: &dyn std::fmt::Display| HostError::new(format!("{}: {error}", path.display()));
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    }
    match attachment {
        Attachment::File(content) => hearth_files::replace(path, content),
        Attachment::Text(text) => hearth_files::replace(path, text),
        Attachment::Image(image) => {
            let png = picture(image)?.png().map_err(|error| failed(&error))?;
            hearth_files::replace(path, png)
        }
    }
    .map_err(|error| failed(&error))
}

/// The path of an attachment. The engine has checked its name; a handler may have any name.
fn place(folder: &Path, handler: &str, name: &str, end: &str) -> PathBuf {
    let plain = |c: char| if c.is_alphanumeric() || "-_#".contains(c) { c } else { '_' };
    let handler: String = handler.chars().map(plain).collect();
    let end = if name.to_lowercase().ends_with(end) { "" } else { end };
    folder.join(handler).join(format!("{name}{end}"))
}

/// Converts a tensor `[H, W]` or `[H, W, 3]` to a picture; u8, or f32 from 0 to 1, with NaN as black.
fn picture(image: &HostTensor<'_>) -> Result<Canvas, HostError> {
    let (height, width, channels) = match image.shape[..] {
        [height, width] => (height, width, 1),
        [height, width, 3] => (height, width, 3),
        _ => return Err(HostError::new(format!("a picture is [H, W] or [H, W, 3], not {:?}", image.shape))),
    };
    if height == 0 || width == 0 || height.checked_mul(width).is_none_or(|pixels| pixels > MAX_PIXELS) {
        return Err(HostError::new(format!("a picture has 1 to {MAX_PIXELS} pixels, not {height} x {width}")));
    }
    let values: Vec<u8> = match image.dtype {
        DType::U8 => image.bytes.to_vec(),
        DType::F32 => image.to_f32()?.iter().map(|value| (value.clamp(0.0, 1.0) * 255.0).round() as u8).collect(),
        other => return Err(HostError::new(format!("a picture is of F32 or U8, not {other:?}"))),
    };
    if values.len() != height * width * channels {
        return Err(HostError::new(format!("{} values are no picture of {:?}", values.len(), image.shape)));
    }
    let mut canvas = Canvas::new(width, height, [0; 3]);
    for (index, pixel) in values.chunks_exact(channels).enumerate() {
        let colour = if let [red, green, blue] = pixel { [*red, *green, *blue] } else { [pixel[0]; 3] };
        canvas.set(index % width, index / width, colour);
    }
    Ok(canvas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_pictures_are_in_the_folder_of_their_handler() {
        let folder = tempfile::tempdir().unwrap();
        let mut write = writer(folder.path(), true);
        write("my/handler#2", "notes/a.txt", &Attachment::File(b"text")).unwrap();
        let image = HostTensor::from_f32(vec![2, 1, 3], &[0.0, 0.5, 1.0, f32::NAN, 2.0, -1.0]).unwrap();
        write("h", "slice", &Attachment::Image(image.clone())).unwrap();
        let text = write("h", "notes", &Attachment::Text("# A")).unwrap().expect("a file");
        let root = folder.path().join("attachments");
        assert_eq!((&text, fs::read(&text).unwrap()), (&root.join("h/notes.md"), b"# A".to_vec()));
        assert_eq!(fs::read(root.join("my_handler#2/notes/a.txt")).unwrap(), b"text");
        assert!(fs::read(root.join("h/slice.png")).unwrap().starts_with(b"\x89PNG"));
        let canvas = picture(&image).unwrap();
        assert_eq!((canvas.get(0, 0), canvas.get(0, 1)), ([0, 128, 255], [0, 255, 0]));

        assert_eq!(writer(folder.path(), false)("other", "a", &Attachment::File(b"")), Ok(None));
        assert!(!root.join("other").exists(), "another process writes nothing");
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        let shapes = [vec![2], vec![2, 2, 4], vec![0, 3], vec![1 << 20, 1 << 20], vec![usize::MAX, 2]];
        for shape in shapes {
            let image = HostTensor { dtype: DType::U8, shape, bytes: vec![0; 4].into() };
            assert!(picture(&image).is_err(), "{:?}", image.shape);
        }
        let short = HostTensor { dtype: DType::U8, shape: vec![2, 3], bytes: vec![0; 4].into() };
        assert!(picture(&short).is_err_and(|error| error.to_string().contains("4 values")));
    }
}
