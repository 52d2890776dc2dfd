//! Reads volumes for the datastore: [`Reading`].

use std::path::Path;

use hearth_data::{Image, read_image};
use hearth_models::cases::{check_upload, images_of};
use hearth_serve::{Grid, Volumes};

use crate::error::Failure;

/// Reads every format that `hearth predict` does.
#[derive(Debug)]
pub struct Reading;

impl Volumes for Reading {
    fn grid(&self, path: &Path) -> Result<Grid, String> {
        grid_of(path, |_| Ok(()))
    }

    fn label(&self, path: &Path) -> Result<Grid, String> {
        grid_of(path, |image| {
            let is_label = |value: &f32| (0.0..=MOST).contains(value) && value.fract() == 0.0;
            match image.with_values(|values| values.iter().copied().find(|value| !is_label(value))) {
                Some(other) => Err(format!("it is not a label map: it holds {other}; label maps hold integers from 0")),
                None => Ok(()),
            }
        })
    }
}

/// The largest value of a label map.
const MOST: f32 = 65535.0;

/// The grid of all images of a path, each of which is checked.
fn grid_of(path: &Path, check: impl Fn(&Image) -> Result<(), String>) -> Result<Grid, String> {
    check_upload(path).map_err(|error| error.line())?;
    let mut first: Option<Grid> = None;
    for file in images_of(path).map_err(|error| error.line())? {
        let image = read_image(&file).map_err(|error| Failure::from(error).line())?;
        check(&image)?;
        let grid = Grid { shape: image.shape(), affine: image.affine };
        match &first {
            Some(first) => first.check(&grid, false).map_err(|what| format!("{}: {what}", file.display()))?,
            None => first = Some(grid),
        }
    }
    first.ok_or_else(|| "it has no image".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_data::{NiftiOptions, affine, host_device, write_nifti};

    #[test]
    fn grids_are_those_of_whole_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ct.nii");
        let mut grid = affine::IDENTITY;
        (grid[0][0], grid[2][2], grid[1][3]) = (2.0, 5.0, -7.0);
        let image = Image::from_values(vec![1.0; 24], [1, 2, 3, 4], grid, &host_device());
        write_nifti(&path, &image, NiftiOptions::default()).expect("written");
        let found = Reading.grid(&path).expect("an image");
        assert_eq!((found.shape, found.affine), ([2, 3, 4], grid));
        let bytes = std::fs::read(&path).expect("read");
        std::fs::write(&path, &bytes[..bytes.len() - 1]).expect("written");
        assert!(Reading.grid(&path).expect_err("cut off").contains("ct.nii"));
    }

    #[test]
    fn label_maps_hold_integers_from_0() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("label.nii");
        for (value, is_label) in [(3.0, true), (0.7, false), (-1.0, false), (f32::NAN, false), (70000.0, false)] {
            let image = Image::from_values(vec![value; 24], [1, 2, 3, 4], affine::IDENTITY, &host_device());
            write_nifti(&path, &image, NiftiOptions::default()).expect("written");
            let found = Reading.label(&path);
            assert_eq!(found.is_ok(), is_label, "{value}: {found:?}");
            assert!(Reading.grid(&path).is_ok());
        }
    }
}
