//! Activation, dropout and norm in any order (`monai.networks.blocks.ADN`).

use burn::module::Module;
use burn::tensor::Tensor;
use hearth_kernels::conv3d::NormAct;
use hearth_kernels::normalize::Slope;

use super::{Act, ConfigError, Dropout, DropoutClock, DropoutSpec, LayerSpec, Norm, Scope};
use crate::named::Named;

/// The layers after a convolution: activation, dropout and norm (`monai.networks.blocks.ADN`). The
/// [module](super) has an example.
#[derive(Clone, Debug)]
pub struct AdnOptions {
    /// Order of the layers as letters A, D and N; letters without a layer are ignored.
    pub ordering: String,
    /// The activation, if any.
    pub act: Option<LayerSpec>,
    /// The norm, if any.
    pub norm: Option<LayerSpec>,
    /// The dropout, if any.
    pub dropout: Option<DropoutSpec>,
    /// The clock that keys the draws of the dropout layers.
    pub clock: DropoutClock,
}

/// One layer of an [`Adn`].
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a network has only a few dozen of them, and modules cannot be boxed")]
pub enum AdnLayer {
    /// `A`
    Act(Act),
    /// `D`
    Dropout(Dropout),
    /// `N`
    Norm(Norm),
}

/// Activation, dropout and norm in order; state-dict keys `A`, `D` and `N`.
pub type Adn = Named<AdnLayer>;

/// The spec, unless its name is empty: in MONAI an empty name means no layer.
fn given(spec: &Option<LayerSpec>) -> Option<&LayerSpec> {
    spec.as_ref().filter(|spec| !spec.name().is_empty())
}

/// The requested norm, if any.
pub(crate) fn norm(scope: &Scope, spec: &Option<LayerSpec>, channels: usize) -> Result<Option<Norm>, ConfigError> {
    given(spec).map(|spec| Norm::new(scope, spec, channels)).transpose()
}

/// The requested activation, if any.
pub(crate) fn act(scope: &Scope, spec: &Option<LayerSpec>) -> Result<Option<Act>, ConfigError> {
    given(spec).map(|spec| Act::new(scope, spec)).transpose()
}

/// An optional layer.
pub(crate) trait Optional {
    /// Applies the layer; without a layer, returns the input.
    fn apply(&self, x: Tensor<5>) -> Tensor<5>;
}

impl Optional for Option<Act> {
    fn apply(&self, x: Tensor<5>) -> Tensor<5> {
        self.iter().fold(x, |x, layer| layer.forward(x))
    }
}

impl Optional for Option<Norm> {
    fn apply(&self, x: Tensor<5>) -> Tensor<5> {
        self.iter().fold(x, |x, layer| layer.forward(x))
    }
}

/// A norm followed by an activation, both optional.
pub(crate) fn norm_then_act(norm: &Option<Norm>, act: &Option<Act>, x: Tensor<5>) -> Tensor<5> {
    match (norm, act) {
        (Some(norm), Some(act)) => norm.forward_with(x, act),
        _ => act.apply(norm.apply(x)),
    }
}

impl AdnOptions {
    /// Builds the layers for this number of channels.
    ///
    /// # Errors
    /// If an option is invalid; the error names it.
    pub fn build(&self, scope: &Scope, channels: usize) -> Result<Adn, ConfigError> {
        let mut layers: Vec<(String, AdnLayer)> = Vec::new();
        for letter in self.ordering.to_uppercase().chars() {
            let name = letter.to_string();
            let scope = scope.enter(&name);
            let layer = match letter {
                'A' => act(&scope, &self.act)?.map(AdnLayer::Act),
                'N' => norm(&scope, &self.norm, channels)?.map(AdnLayer::Norm),
                'D' => {
                    let dropout = self.dropout.as_ref().map(|spec| Dropout::of(scope.path(), spec, &self.clock));
                    dropout.transpose()?.map(AdnLayer::Dropout)
                }
                _ => {
                    return Err(ConfigError::value("adn_ordering", &self.ordering, "expected letters of A, D and N"));
                }
            };
            // A repeated letter is one module in PyTorch's Sequential, because the name is the key.
            if let Some(layer) = layer
                && layers.iter().all(|(other, _)| *other != name)
            {
                layers.push((name, layer));
            }
        }
        Ok(Named::new(layers))
    }
}

impl Adn {
    /// The equivalent epilogue of a convolution outside training, if these layers are a norm,
    /// optionally followed by an activation like ReLU.
    pub(crate) fn behind_convolution(&self) -> Option<NormAct> {
        let mut layers = self.iter().filter(|layer| !matches!(layer, AdnLayer::Dropout(_)));
        let Some(AdnLayer::Norm(norm)) = layers.next() else { return None };
        let slope = match (layers.next(), layers.next()) {
            (None, _) => Slope::Fixed(1.0),
            (Some(AdnLayer::Act(act)), None) => act.slope()?,
            _ => return None,
        };
        Some(norm.behind_convolution(slope))
    }

    /// Applies the layer to `[b, c, x, y, z]`; the shape is unchanged.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let mut x = x;
        // Inactive dropout does not separate a norm from its activation.
        let active: Vec<&AdnLayer> =
            self.iter().filter(|layer| !matches!(layer, AdnLayer::Dropout(d) if !d.is_active(&x))).collect();
        let mut layers = active.into_iter().peekable();
        while let Some(layer) = layers.next() {
            x = match layer {
                AdnLayer::Norm(norm) => match layers.next_if(|next| matches!(next, AdnLayer::Act(_))) {
                    Some(AdnLayer::Act(act)) => norm.forward_with(x, act),
                    _ => norm.forward(x),
                },
                AdnLayer::Act(act) => act.forward(x),
                AdnLayer::Dropout(dropout) => dropout.forward(x),
            };
        }
        x
    }
}
