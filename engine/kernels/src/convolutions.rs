//! Whose kernels compute convolutions on GPUs: [`Convolutions`].

use std::sync::atomic::{AtomicU8, Ordering};

/// Whose kernels compute convolutions on NVIDIA GPUs. Other devices always use this crate's.
///
/// The vendor's library is cuDNN 9.15 or later, opened at run time ([`hearth_cudnn::Search`]). Each
/// of its results of a new shape is compared with ours first, and ours is used from then on where
/// they differ, or where the library has no plan for the shape. f32 is not rounded to TF32, and
/// results are the same in every run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Convolutions {
    /// This crate's kernels.
    #[default]
    Own,
    /// The vendor's library where it can be opened, else this crate's kernels.
    Auto,
    /// The vendor's library.
    Vendor,
}

/// The reason why the vendor's library cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoVendor {
    /// The program has no backend that the library works with.
    #[error("this program is built without CUDA: build it with `--features cuda`")]
    NotBuilt,
    /// The library cannot be opened.
    #[error(transparent)]
    Library(#[from] hearth_cudnn::Error),
}

static SETTING: AtomicU8 = AtomicU8::new(Convolutions::Own as u8);

impl Convolutions {
    /// Applies the setting to this process from now on.
    ///
    /// # Errors
    /// [`Vendor`](Self::Vendor) where the library cannot be opened; the setting is then unchanged.
    pub fn set(self) -> Result<(), NoVendor> {
        match self {
            // The library is not opened for our kernels.
            Convolutions::Own => {}
            Convolutions::Auto => {
                if let Err(why) = vendor() {
                    tracing::info!("convolutions are computed by our kernels: {why}");
                }
            }
            Convolutions::Vendor => {
                vendor()?;
            }
        }
        SETTING.store(self as u8, Ordering::Relaxed);
        Ok(())
    }

    /// The setting of this process.
    pub fn get() -> Self {
        match SETTING.load(Ordering::Relaxed) {
            1 => Convolutions::Auto,
            2 => Convolutions::Vendor,
            _ => Convolutions::Own,
        }
    }
}

#[cfg(not(all(gpu_kernels, feature = "cudnn")))]
fn vendor() -> Result<(), NoVendor> {
    Err(NoVendor::NotBuilt)
}

#[cfg(all(gpu_kernels, feature = "cudnn"))]
pub(crate) use opened::vendor;

#[cfg(all(gpu_kernels, feature = "cudnn"))]
mod opened {
    use std::sync::{Arc, OnceLock};

    use hearth_cudnn::{Error, Library, Search};

    use super::NoVendor;

    /// The library, opened by the first call.
    pub(crate) fn vendor() -> Result<&'static Arc<Library>, NoVendor> {
        static LIBRARY: OnceLock<Result<Arc<Library>, Error>> = OnceLock::new();
        LIBRARY.get_or_init(|| Library::open(&Search::standard())).as_ref().map_err(|why| why.clone().into())
    }
}
