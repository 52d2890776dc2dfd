//! The source of batches: [`Loader`].

use hearth_data::{Batch, DataError};

/// One pass over the data.
pub type BatchStream = Box<dyn Iterator<Item = Result<Batch, DataError>> + Send>;

/// A source of batches, pass after pass. The loaders of `hearth-data` implement it; so may your own
/// type.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use hearth_data::Batch;
/// use hearth_nn::{losses::DiceLoss, networks::UNetConfig, optim::AdamConfig};
/// use hearth_train::{BatchStream, Loader, SupervisedTrainer};
///
/// /// Ten times the same image, of which the bright voxels are the label.
/// struct Stripes;
///
/// impl Loader for Stripes {
///     fn batches(&self) -> Option<u64> {
///         Some(10)
///     }
///
///     fn pass(&self, _pass: u64, skip: u64) -> BatchStream {
///         let stripes = Tensor::<1>::from_floats([0.1, 0.9], &Device::default()).repeat(&[256]);
///         let image = stripes.reshape([1, 1, 8, 8, 8]); // [B, C, X, Y, Z]
///         let mut batch = Batch { cases: vec!["stripes".into()], ..Batch::default() };
///         batch.tensors.insert("label".into(), image.clone().round());
///         batch.tensors.insert("image".into(), image);
///         Box::new((skip..10).map(move |_| Ok(batch.clone())))
///     }
/// }
///
/// let network = UNetConfig::new(3, 1, 2, &[2, 4], &[2]).init(&Device::default(), 0)?;
/// let loss = DiceLoss::default().softmax(true).to_onehot_y(true);
/// let mut trainer = SupervisedTrainer::builder(network, loss, AdamConfig::default(), Stripes).build()?;
/// trainer.run()?;
/// assert_eq!(trainer.engine().state().iteration, 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a source of batches",
    note = "`DataLoader::new(data, LoaderOptions::default())?` makes batches of a data set; a type of your own implements \
            `Loader`"
)]
pub trait Loader: Send {
    /// The number of batches in a whole pass, where it is known.
    fn batches(&self) -> Option<u64>;

    /// Pass number `pass` (the epoch, from 1) without its first `skip` batches. The same pass must
    /// return the same batches each time: a resumed run then equals an uninterrupted one.
    fn pass(&self, pass: u64, skip: u64) -> BatchStream;
}

impl Loader for hearth_data::DataLoader {
    fn batches(&self) -> Option<u64> {
        Some(self.len() as u64)
    }

    fn pass(&self, pass: u64, skip: u64) -> BatchStream {
        Box::new(self.epoch(pass, skip))
    }
}

impl Loader for hearth_data::ThreadDataLoader {
    fn batches(&self) -> Option<u64> {
        Some(self.len() as u64)
    }

    fn pass(&self, pass: u64, skip: u64) -> BatchStream {
        Box::new(self.epoch(pass, skip))
    }
}

impl Loader for hearth_data::PatchLoader {
    /// The number of patches of a case is known only once they are made.
    fn batches(&self) -> Option<u64> {
        None
    }

    fn pass(&self, pass: u64, skip: u64) -> BatchStream {
        Box::new(self.epoch(pass, skip))
    }
}
