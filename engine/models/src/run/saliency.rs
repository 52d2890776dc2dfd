//! What the answer of a run that classifies depends on, on the grid of its image.

use burn::tensor::{DType, Tensor};
use hearth_data::Image;
use hearth_nn::inferers::CamName;
use hearth_nn::layers::Axes;
use hearth_nn::networks::Network;
use hearth_nn::visualize::{GradCam, OcclusionSensitivity, SmoothGrad, VanillaGrad, VisualizeError};
use hearth_recipe::{Outcome, RecipeError};
use hearth_train::Post;

use crate::run::segment::{Ready, computed};
use crate::run::trained::Trained;
use crate::saliency::{Saliency, SaliencyMap, SaliencyMethod};
use crate::writers::window;

/// The largest size of the hidden part of an image, MONAI's default; along a short axis it is a quarter of
/// it.
const MASK: usize = 16;

/// The number of images with a hidden part that are predicted at once.
const HIDDEN: usize = 4;

/// Sizes of the image whose forward pass lists the layers: the first that the network accepts.
const PROBES: [usize; 5] = [32, 64, 96, 128, 224];

impl Trained {
    /// Checks what the run alone decides, before an image is read.
    ///
    /// # Errors
    /// A class or a layer that does not exist, or an inferer that calls the network several times for an
    /// image.
    pub(crate) fn check_saliency(&self, how: &Saliency) -> Outcome {
        self.check_calls()?;
        how.place_of(&self.plan.recipe.labels)?;
        how.layer.as_deref().map_or(Ok(()), |layer| self.check_layer(layer))
    }

    fn check_calls(&self) -> Outcome {
        let name = self.plan.recipe.inferer.name();
        if name != "SimpleInferer" {
            let what = "--saliency explains one call of the network for an image";
            return Err(RecipeError::new(format!("{what}, and the recipe's {name} makes several: remove it")));
        }
        Ok(())
    }

    /// Whether a forward pass calls a layer. Whether its output is a map depends on the size of the image.
    fn check_layer(&self, layer: &str) -> Outcome {
        let (network, channels) = (&self.network, self.network.channels()[0]);
        let flat = network.spatial_dims() == 2;
        let shape = |length: usize| [1, channels, length, length, if flat { 1 } else { length }];
        let Some(shape) = PROBES.into_iter().map(shape).find(|shape| network.check_input(*shape).is_ok()) else {
            return Ok(());
        };
        let cam = GradCam { target_layer: Some(layer.to_owned()), class_idx: Some(0), ..GradCam::default() };
        match cam.map(network, Tensor::zeros(shape, &self.plan.device)) {
            Err(VisualizeError::Layer { network, layer, known }) => {
                let what = format!("{network} has no layer `{layer}`; the last ones are {known}");
                Err(RecipeError::new(format!("--saliency-layer: {what}")))
            }
            _ => Ok(()),
        }
    }

    /// The map of an image that was already read.
    ///
    /// # Errors
    /// A class or a layer that does not exist, an image that does not fit the network, or an inferer that
    /// calls the network several times for an image.
    pub fn saliency_of(&self, ready: &Ready, how: &Saliency) -> Outcome<SaliencyMap> {
        self.check_calls()?;
        let recipe = &self.plan.recipe;
        let image = ready.image().clone().to_device(&self.plan.device);
        let input: Tensor<5> = image.data.clone().unsqueeze_dim(0);
        self.network.check_input(input.dims())?;
        let steps = self.plan.post_prediction()?;
        let scores = self.answer(&steps, input.clone())?;
        let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(place, _)| place);
        let (place, names) = (how.place_of(&recipe.labels)?.or(best).unwrap_or(0), &recipe.labels);
        let score = scores.get(place).copied().unwrap_or(f32::NAN);
        let map = self.explained(how, &steps, input, (place, score))?;
        let map = Image { data: map.squeeze_dim(0), affine: image.affine, meta: image.meta.clone() };
        let map = computed(self.plan.prediction.invert(map, &image, false)?)?;
        let class = names.get(place).cloned().unwrap_or_else(|| format!("class {place}"));
        Ok(SaliencyMap { map, method: how.method, class, score, window: window(recipe) })
    }

    /// The scores of an image after the chain's activations.
    fn answer(&self, steps: &[Post], input: Tensor<5>) -> Outcome<Vec<f32>> {
        let scores = self.probabilities(steps, self.network.forward(input).cast(DType::F32))?;
        let scores = scores.try_into_data().map_err(RecipeError::from_error)?;
        Ok(scores.iter::<f32>().collect())
    }

    /// The map `[1, 1, x, y, z]` of the class at this place, with this score.
    fn explained(
        &self,
        how: &Saliency,
        steps: &[Post],
        x: Tensor<5>,
        (class, score): (usize, f32),
    ) -> Outcome<Tensor<5>> {
        let (network, method) = (&self.network, how.method);
        let found = match method {
            SaliencyMethod::GradCam | SaliencyMethod::GradCamPp => {
                let cam_name = if method == SaliencyMethod::GradCam { CamName::GradCAM } else { CamName::GradCAMpp };
                let cam = GradCam { cam_name, target_layer: how.layer.clone(), class_idx: Some(class) };
                return cam.map(network, x).map_err(|error| match error {
                    VisualizeError::Layer { .. } | VisualizeError::Point { .. } => {
                        RecipeError::new(format!("--saliency-layer: {error}"))
                    }
                    error => RecipeError::from_error(error),
                });
            }
            SaliencyMethod::Vanilla => VanillaGrad::default().class_idx(class).map(network, x),
            SaliencyMethod::Smooth => SmoothGrad::default().class_idx(class).map(network, x),
            SaliencyMethod::Occlusion => {
                let [_, _, size @ ..] = x.dims();
                let mask = size.map(|length| MASK.min(length / 4).max(1));
                let hide = OcclusionSensitivity::default().n_batch(HIDDEN);
                let hide = hide.mask_size(Axes::Each(mask[..network.spatial_dims()].to_vec()));
                let failed = std::cell::RefCell::new(None);
                let scores = |x: Tensor<5>| {
                    let logits = network.forward(x).cast(DType::F32);
                    self.probabilities(steps, logits.clone()).unwrap_or_else(|error| {
                        // The closure must return a tensor; its value is ignored.
                        failed.borrow_mut().get_or_insert(error);
                        logits
                    })
                };
                let hidden = hide.scores(x, &scores).map_err(RecipeError::from_error)?;
                return match failed.into_inner() {
                    Some(error) => Err(error),
                    None => Ok(-hidden.narrow(1, class, 1) + score),
                };
            }
        };
        // The largest slope of all channels, as Simonyan et al. draw it.
        Ok(found.map_err(RecipeError::from_error)?.abs().max_dim(1))
    }
}
