use std::path::Path;

use super::npy::{NumpyReader, read_named};
use super::{Probe, ReadError, ReadOptions, Reader};
use crate::{Image, affine, host_device};

/// [`Meta::stored_type`](crate::Meta::stored_type) of an image that nnU-Net has prepared for its network.
pub const PREPROCESSED: &str = "preprocessed by nnU-Net";

/// The cases of folders of `nnUNet_preprocessed` (`.npz`, of nnU-Net v2 before it wrote `.b2nd`): the
/// channels of `data`, then `seg` as the last channel. The arrays are z y x; the image has them as x y z.
/// Archives of other arrays are read as those of NumPy.
#[derive(Clone, Copy, Debug, schemars::JsonSchema)]
pub struct NnunetReader;

impl Reader for NnunetReader {
    fn name(&self) -> &'static str {
        "NnunetReader"
    }

    fn precedence(&self) -> u32 {
        2
    }

    fn suffixes(&self) -> &[&str] {
        &[]
    }

    fn recognizes(&self, probe: &Probe<'_>) -> bool {
        // The name of the first array stands behind the header of its entry.
        probe.start.starts_with(b"PK\x03\x04") && probe.start.get(30..38) == Some(b"data.npy")
    }

    fn read(&self, path: &Path, options: &ReadOptions) -> Result<Image, ReadError> {
        // Who names an array wants that one.
        let labels = if options.npz_key.is_some() { None } else { read_named(path, "seg").ok() };
        let Some((of_labels, labels)) = labels else { return NumpyReader.read(path, options) };
        let (shape, mut values) = read_named(path, "data")?;
        let (&[channels, z, y, x], &[1, ..]) = (&shape[..], &of_labels[..]) else {
            return NumpyReader.read(path, options);
        };
        if of_labels[1..] != shape[1..] {
            let what = format!("`seg` has the shape {of_labels:?}, and `data` {shape:?}: the file is damaged");
            return Err(ReadError::new(path, what));
        }
        values.extend(labels);
        let lying = Image::from_values(values, [channels + 1, z, y, x], affine::IDENTITY, &host_device());
        let mut image = Image { data: lying.data.permute([0, 3, 2, 1]), ..lying };
        image.meta.path = Some(path.to_owned());
        image.meta.stored_type = PREPROCESSED.to_owned();
        image.meta.original_shape = vec![channels + 1, z, y, x];
        image.meta.original_channel_dim = Some(0);
        Ok(image)
    }
}

hearth_registry::entry!(dyn Reader => NnunetReader, example: "", build: |_| Ok(Box::new(NnunetReader)));
