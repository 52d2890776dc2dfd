//! Files of medical images: [`readers`] and [`writers`], chosen by content or suffix.
//!
//! [`nifti`] is implemented here; DICOM, whole-slide images and meshes have separate crates, which
//! the readers and writers call. Blosc2 frames are read for nnU-Net's data.
//!
//! ```
//! use hearth_image::{Image, affine, host_device};
//! use hearth_io::{WriteOptions, read_image, write_image};
//!
//! let folder = tempfile::tempdir()?;
//! let image = Image::from_values(vec![0.5; 24], [1, 2, 3, 4], affine::IDENTITY, &host_device());
//! for name in ["image.nii.gz", "image.nrrd", "image.mha"] {
//!     let path = folder.path().join(name);
//!     write_image(&path, &image, &WriteOptions::default())?;
//!     assert_eq!(read_image(&path)?.to_vec(), image.to_vec());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod blosc2;
pub mod nifti;
pub mod readers;
pub mod writers;

pub use nifti::{NiftiError, NiftiOptions, read_nifti, read_nifti_on, write_nifti};
pub use readers::{Parts, ReadError, ReadOptions, Reader, read_image, read_image_with};
pub use writers::{WriteError, WriteOptions, write_image};
