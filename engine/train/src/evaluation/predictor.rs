//! [`Predictor`]: predicts from an image's file, on that image's grid.

use std::path::Path;

use burn::tensor::{Device, Tensor};
use hearth_data::{Image, Item, Pipeline};
use hearth_engine::BoxError;
use hearth_nn::inferers::{Inferer, SimpleInferer};
use hearth_nn::networks::Network;

use crate::evaluation::inference::infer;
use crate::evaluation::post::Post;
use crate::training::precision::Precision;

/// Reads images as in training, applies the network to them, and maps its output back to each
/// image's own grid.
///
/// ```no_run
/// use hearth_data::transforms::{EnsureChannelFirst, LoadImage, Orientation};
/// use hearth_data::{Pipeline, WriteOptions, write_image};
/// use hearth_nn::inferers::SlidingWindowInferer;
/// use hearth_train::{Post, Predictor};
/// # fn predict(network: hearth_nn::networks::UNet) -> Result<(), hearth_engine::BoxError> {
/// let steps = Pipeline::new((LoadImage::new("image"), EnsureChannelFirst::new("image"), Orientation::new("image", "RAS")))?;
/// let predictor = Predictor::new(network, steps).inferer(SlidingWindowInferer::new(&[96, 96, 96])).post(Post::labels());
/// write_image("spleen.nii.gz", &predictor.predict("ct.nii.gz")?, &WriteOptions::default())?;
/// # Ok(())
/// # }
/// ```
pub struct Predictor<N> {
    network: N,
    steps: Pipeline,
    inferer: Box<dyn Inferer>,
    post: Vec<Post>,
    key: String,
    precision: Precision,
    device: Device,
}

impl<N: Network> std::fmt::Debug for Predictor<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Predictor")
            .field("network", &self.network.name())
            .field("inferer", &self.inferer.name())
            .field("post", &self.post)
            .finish_non_exhaustive()
    }
}

impl<N: Network> Predictor<N> {
    /// Makes a predictor with this network, on its device. The deterministic steps among `steps`
    /// run first; they load the key `image`.
    pub fn new(network: N, steps: Pipeline) -> Self {
        let device = network.devices().into_iter().next().unwrap_or_default().inner();
        Self {
            network: network.valid().to_device(&device),
            steps: steps.without_random(),
            inferer: Box::new(SimpleInferer {}),
            post: Vec::new(),
            key: "image".into(),
            precision: Precision::Fp32,
            device,
        }
    }

    /// Sets how the network is applied to an image; by default once to the whole image.
    #[must_use]
    pub fn inferer(mut self, inferer: impl Inferer + 'static) -> Self {
        self.inferer = Box::new(inferer);
        self
    }

    /// Sets the steps on the prediction once it is on the image's own grid: [`Post::labels`] for
    /// exclusive classes, [`Post::sigmoid_threshold`] for regions; by default none, so that the
    /// prediction holds logits.
    #[must_use]
    pub fn post(mut self, steps: Vec<Post>) -> Self {
        self.post = steps;
        self
    }

    /// Sets the key of the image in the steps; by default `image`.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = key.into();
        self
    }

    /// Sets the number type of convolutions and matrix products; by default [`Precision::Fp32`]. Whether
    /// the device can compute in it is checked by [`predict`](Self::predict), and before it by
    /// [`Precision::check`].
    #[must_use]
    pub fn precision(mut self, precision: Precision) -> Self {
        (self.network, self.precision) = (precision.apply(self.network), precision);
        self
    }

    /// Predicts the image in this file or folder; the result is `[channels, x, y, z]` on the grid
    /// of the file.
    ///
    /// # Errors
    /// Where the device cannot compute in the precision, an option of the inferer is invalid, the file cannot
    /// be read, the steps fail on it, or its size does not suit the network.
    pub fn predict(&self, path: impl AsRef<Path>) -> Result<Image, BoxError> {
        let path = path.as_ref();
        let case = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        self.predict_item(&Item::new(case).with(&self.key, path))
    }

    /// Predicts a case, whose image may consist of several files.
    ///
    /// # Errors
    /// Same as [`predict`](Self::predict).
    pub fn predict_item(&self, item: &Item) -> Result<Image, BoxError> {
        self.precision.check(&self.device)?;
        self.inferer.check_for(self.network.spatial_dims())?;
        let mut samples = self.steps.run_deterministic(item.sample())?;
        let mut sample = samples.pop().ok_or_else(|| format!("case {}: the steps returned nothing", item.case))?;
        let image = sample.take_image(&self.key)?.to_device(&self.device);
        let logits: Tensor<4> = infer(&*self.inferer, image.data.clone().unsqueeze_dim(0), &self.network)
            .map_err(|error| format!("case {}: {error}", item.case))?
            .squeeze_dim(0);
        // One channel at a time: all channels at full size may not fit into memory.
        let channels = (0..logits.dims()[0]).map(|channel| {
            let data = logits.clone().narrow(0, channel, 1);
            let one = Image { data, affine: image.affine, meta: image.meta.clone() };
            Ok(self.steps.invert(one, &image, false)?)
        });
        let mut channels = channels.collect::<Result<Vec<Image>, BoxError>>()?.into_iter();
        let mut first = channels.next().ok_or("the network has no output")?;
        first.data = Tensor::cat(std::iter::once(first.data).chain(channels.map(|one| one.data)).collect(), 0);
        Post::finish(&self.post, first, &item.case)
    }
}
