//! Class activation maps of a layer: [`GradCam`].

use burn::tensor::{DType, Tensor};
use derive_setters::Setters;

use super::{VisualizeError, differentiable, score};
use crate::inferers::{CamName, activation_map, scaled};
use crate::networks::Network;
use crate::trace::tap::{self, Output};

/// The number of layers that an error names.
const NAMED: usize = 6;

/// `monai.visualize.GradCAM` and `GradCAMpp`: where the output of a layer supports a class.
///
/// MONAI's maps are inverted, 0 for the strongest support; here 1 is the strongest and 0 the weakest, in
/// each image.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::networks::DenseNetConfig;
/// # use hearth_nn::visualize::GradCam;
/// let config = DenseNetConfig { block_config: Some(vec![2, 2]), init_features: 8, ..DenseNetConfig::new(2, 1, 3) };
/// let net = config.init(&Device::default(), 0)?;
/// let image = Tensor::ones([1, 1, 16, 16, 1], &Device::default());
/// assert_eq!(GradCam::default().map(&net, image.clone())?.dims(), [1, 1, 16, 16, 1]);
/// let early = GradCam::default().target_layer("features.denseblock1").class_idx(2);
/// assert_eq!(early.map(&net, image)?.dims(), [1, 1, 16, 16, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Setters)]
#[setters(strip_option)]
pub struct GradCam {
    /// The weights of the features.
    pub cam_name: CamName,
    /// The layer, as state dicts name it (`layer4`, `features.denseblock4`); of a module with several layers
    /// its last output. By default the last output with more than one voxel: that which is pooled.
    #[setters(into)]
    pub target_layer: Option<String>,
    /// The class; by default the one with the highest score.
    pub class_idx: Option<usize>,
}

impl GradCam {
    /// Computes the map `[b, 1, x, y, z]` for images `[b, c, x, y, z]`.
    ///
    /// # Errors
    /// Fails for images that the network does not accept, outputs that are no scores of classes, and a class
    /// or a layer that does not exist.
    pub fn map<N: Network>(&self, net: &N, x: Tensor<5>) -> Result<Tensor<5>, VisualizeError> {
        let image = x.dims();
        net.check_input(image)?;
        let (name, net) = (net.name(), differentiable(net));
        let x = x.without_autodiff().autodiff();
        let outputs = tap::outputs(|| net.forward(x.clone()));
        let place = self.place(name, &outputs)?;
        if let Some(layer) = self.target_layer.clone().filter(|_| !is_map(&outputs[place])) {
            return Err(VisualizeError::Point { network: name, layer });
        }
        let independent = || {
            let what = match outputs[place].path.as_str() {
                "" => "the last map of features".to_owned(),
                path => format!("the output of `{path}`"),
            };
            VisualizeError::Independent { network: name, what }
        };
        let (scores, leaf) = tap::with_leaf(place, || net.forward(x));
        let leaf = leaf.ok_or_else(independent)?;
        let score = score(scores, image, self.class_idx)?;
        let gradients = score.clone().sum().backward();
        let slope = leaf.grad(&gradients).ok_or_else(independent)?.cast(DType::F32);
        let (values, score) = (leaf.without_autodiff().cast(DType::F32), score.without_autodiff());
        let [_, _, size @ ..] = image;
        Ok(scaled(activation_map(self.cam_name, values, slope, score, size)))
    }

    /// The place of the target layer's output.
    fn place(&self, network: &'static str, outputs: &[Output]) -> Result<usize, VisualizeError> {
        let Some(layer) = &self.target_layer else {
            return outputs.iter().rposition(is_map).ok_or(VisualizeError::NoMap { network });
        };
        // Layers without parameters have no path.
        if let Some(place) = outputs.iter().rposition(|output| !layer.is_empty() && output.path == *layer) {
            return Ok(place);
        }
        let within =
            |output: &Output| output.path.strip_prefix(layer.as_str()).is_some_and(|rest| rest.starts_with('.'));
        let Some(last) = outputs.iter().rposition(within) else {
            let mut known: Vec<&str> = Vec::new();
            for path in outputs.iter().rev().map(|output| output.path.as_str()).filter(|path| !path.is_empty()) {
                if known.len() < NAMED && !known.contains(&path) {
                    known.push(path);
                }
            }
            known.reverse();
            return Err(VisualizeError::Layer { network, layer: layer.clone(), known: known.join(", ") });
        };
        // Activations and sums of the module have no name.
        let unnamed = outputs[last + 1..]
            .iter()
            .take_while(|output| output.path.is_empty() && output.shape[2..] == outputs[last].shape[2..]);
        Ok(last + unnamed.count())
    }
}

/// Whether an output has more than one voxel.
fn is_map(output: &Output) -> bool {
    output.shape[2..].iter().product::<usize>() > 1
}
