//! Converts a label map to the requested format: NIfTI, NRRD, MetaImage, MGZ, a segmentation of 3D Slicer,
//! DICOM SEG, volumes.

use std::path::Path;

use hearth_data::writers::Segment;
use hearth_data::{Image, NiftiOptions, WriteOptions, write_image};
use hearth_serve::{Answer, Format, Refusal};
use serde_json::{Map, Value, json};

use crate::error::Failure;

/// Label names with their values.
pub type Names = [(String, u32)];

/// An error that the client cannot fix, such as a full disk.
pub fn failed(doing: &str, error: impl std::error::Error) -> Refusal {
    Refusal::Failed(Failure::from(error).context(doing).line())
}

/// An error that the client can fix: an image that cannot be read, or that does not suit the model.
pub fn refused(error: impl std::error::Error) -> Refusal {
    Refusal::Input(Failure::from(error).line())
}

/// Writes a label map from memory.
pub fn of_image(image: &Image, format: Format, names: &Names, is_label: bool, out: &Path) -> Result<Answer, Refusal> {
    let path = out.join(format!("label{}", format.end()));
    let nifti = if is_label { NiftiOptions::label() } else { NiftiOptions::default() };
    let writing = |error: &dyn std::error::Error| Refusal::Failed(format!("cannot write the result: {error}"));
    match format {
        Format::Nifti | Format::PlainNifti | Format::Nrrd | Format::MetaImage | Format::Mgz => {
            let options = WriteOptions::default().nifti(nifti);
            write_image(&path, image, &options).map_err(|error| writing(&error))?;
        }
        Format::SegNrrd => {
            let mut options = WriteOptions::label();
            options.segments = names.iter().map(|(name, label)| Segment::new(*label, name)).collect();
            write_image(&path, image, &options).map_err(|error| writing(&error))?;
        }
        Format::Json | Format::DicomSeg => {
            let facts = if is_label { volumes(image, names) } else { Map::new() };
            return Ok(Answer { file: None, facts });
        }
    }
    Ok(Answer { file: Some(path), facts: Map::new() })
}

/// Returns a DICOM segmentation as the result.
pub fn segmentation(bytes: &[u8], out: &Path) -> Result<Answer, Refusal> {
    let path = out.join(format!("label{}", Format::DicomSeg.end()));
    std::fs::write(&path, bytes).map_err(|error| failed("cannot write the result", error))?;
    Ok(Answer { file: Some(path), facts: Map::new() })
}

/// The error for a DICOM segmentation of an image that is not a series.
pub fn no_series() -> Refusal {
    Refusal::Input(
        "a DICOM segmentation refers to a series of DICOM: send one, as a zip, or ask for another format".into(),
    )
}

/// Voxels and millilitres of each label; each of several channels counts as a label.
fn volumes(image: &Image, names: &Names) -> Map<String, Value> {
    let values = image.to_vec();
    let size = image.shape().iter().product::<usize>().max(1);
    let cubic_millimetres = image.spacing().iter().product::<f64>();
    let of = |place: usize, label: u32| match image.channels() {
        1 => values.iter().filter(|value| **value == label as f32).count(),
        _ => values.chunks(size).nth(place).map_or(0, |channel| channel.iter().filter(|value| **value >= 0.5).count()),
    };
    let each = names.iter().enumerate().map(|(place, (name, label))| {
        let voxels = of(place, *label);
        let millilitres = voxels as f64 * cubic_millimetres / 1000.0;
        (name.clone(), json!({"label": label, "voxels": voxels, "millilitres": millilitres}))
    });
    let volumes: Map<String, Value> = each.collect();
    Map::from_iter([
        ("volumes".to_owned(), Value::Object(volumes)),
        ("shape".to_owned(), json!(image.shape())),
        ("spacing".to_owned(), json!(image.spacing())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_data::{ReadOptions, affine, host_device, read_image, read_image_with};

    fn names() -> Vec<(String, u32)> {
        vec![("spleen".to_owned(), 1), ("tumour".to_owned(), 2)]
    }

    fn map() -> Image {
        let mut grid = affine::IDENTITY;
        (grid[0][0], grid[1][1], grid[2][2]) = (2.0, 5.0, 10.0);
        Image::from_values(vec![0.0, 1.0, 1.0, 2.0, 0.0, 1.0], [1, 3, 2, 1], grid, &host_device())
    }

    #[test]
    fn volumes_are_counted_in_millilitres() {
        let folder = tempfile::tempdir().expect("a folder");
        let answer = of_image(&map(), Format::Json, &names(), true, folder.path()).expect("volumes");
        assert!(answer.file.is_none());
        let spleen = &answer.facts["volumes"]["spleen"];
        assert_eq!((&spleen["voxels"], spleen["millilitres"].as_f64()), (&json!(3), Some(0.3)));
        assert_eq!(answer.facts["volumes"]["tumour"]["label"], 2);
    }

    #[test]
    fn formats_hold_the_same_labels() {
        let folder = tempfile::tempdir().expect("a folder");
        let volumes =
            [Format::Nifti, Format::PlainNifti, Format::Nrrd, Format::MetaImage, Format::Mgz, Format::SegNrrd];
        for format in volumes {
            let answer = of_image(&map(), format, &names(), true, folder.path()).expect("a file");
            let file = answer.file.expect("a file");
            assert!(file.to_string_lossy().ends_with(format.end()));
            let read = read_image(&file).expect("an image");
            assert_eq!((read.to_vec(), read.affine), (map().to_vec(), map().affine), "{format:?}");
            assert_eq!(read.meta.stored_type, "uint8", "{format:?}");
        }
    }

    /// A channel for each region: the core is within the whole.
    #[test]
    fn regions_that_overlap_stay_complete_in_layers() {
        let folder = tempfile::tempdir().expect("a folder");
        let channels = vec![1.0, 1.0, 1.0, 0.0, 1.0, 0.0];
        let regions = Image::from_values(channels.clone(), [2, 3, 1, 1], affine::IDENTITY, &host_device());
        let answer = of_image(&regions, Format::SegNrrd, &names(), true, folder.path()).expect("a file");
        let mut options = ReadOptions::default();
        options.segments_as_channels = true;
        let read = read_image_with(answer.file.expect("a file"), &options).expect("an image");
        assert_eq!((read.data.dims(), read.to_vec()), ([2, 3, 1, 1], channels));
    }
}
