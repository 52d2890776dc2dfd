//! Whose kernels compute convolutions, as set in a recipe or on the command line:
//! [`ConvolutionsWord`].

use std::str::FromStr;

use burn::tensor::Device;
use hearth_kernels::{Convolutions, NoVendor};
use serde::{Deserialize, Serialize};

use super::{is_cuda, name};

/// `own`, `auto`, or `vendor`: whose kernels compute convolutions on a GPU of NVIDIA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConvolutionsWord {
    /// Hearth's, as on every other device.
    #[default]
    Own,
    /// cuDNN's on CUDA where it can be opened, else Hearth's.
    Auto,
    /// cuDNN's; an error where they cannot be used.
    Vendor,
}

/// The reason why convolutions cannot be computed as requested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvolutionsError {
    /// The value is unknown.
    #[error("`{0}` is not known; give own, auto or vendor")]
    Unknown(String),
    /// The device is not one of the vendor's library.
    #[error("cuDNN computes on GPUs of NVIDIA by CUDA, not on {0}: give own or auto, or choose the device `cuda`")]
    Elsewhere(String),
    /// The library cannot be used.
    #[error(transparent)]
    Library(#[from] NoVendor),
}

impl FromStr for ConvolutionsWord {
    type Err = ConvolutionsError;

    fn from_str(word: &str) -> Result<Self, ConvolutionsError> {
        match word {
            "own" => Ok(ConvolutionsWord::Own),
            "auto" => Ok(ConvolutionsWord::Auto),
            "vendor" => Ok(ConvolutionsWord::Vendor),
            other => Err(ConvolutionsError::Unknown(other.to_owned())),
        }
    }
}

impl ConvolutionsWord {
    /// Applies the setting for this device to the whole process; see [`Convolutions::set`].
    ///
    /// # Errors
    /// `vendor` on another device than CUDA's, or where cuDNN cannot be used.
    pub fn set(self, device: &Device) -> Result<(), ConvolutionsError> {
        let chosen = match self {
            ConvolutionsWord::Own => Convolutions::Own,
            ConvolutionsWord::Auto if !is_cuda(device) => Convolutions::Own,
            ConvolutionsWord::Auto => Convolutions::Auto,
            ConvolutionsWord::Vendor if !is_cuda(device) => return Err(ConvolutionsError::Elsewhere(name(device))),
            ConvolutionsWord::Vendor => Convolutions::Vendor,
        };
        Ok(chosen.set()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vendor_that_cannot_compute_is_refused_and_may_be_missing() {
        let cpu = crate::device::parse("cpu").expect("always there");
        let refused = ConvolutionsWord::Vendor.set(&cpu).expect_err("no GPU").to_string();
        assert!(refused.contains("not on cpu") && refused.contains("own or auto"), "{refused}");
        for word in [ConvolutionsWord::Auto, ConvolutionsWord::Own] {
            word.set(&cpu).expect("nothing is demanded");
            assert_eq!(Convolutions::get(), Convolutions::Own);
        }
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        for word in [ConvolutionsWord::Own, ConvolutionsWord::Auto, ConvolutionsWord::Vendor] {
            let written = serde_json::to_value(word).expect("a word");
            let read = written.as_str().expect("text").parse::<ConvolutionsWord>();
            assert_eq!(read.expect("known"), word);
        }
        let unknown = "cudnn".parse::<ConvolutionsWord>().expect_err("unknown").to_string();
        assert!(unknown.contains("own, auto or vendor"), "{unknown}");
    }
}
