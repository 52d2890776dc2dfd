//! Activation, dropout and norm in any order (`monai.networks.blocks.ADN`).

use burn::module::Module;
use burn::tensor::Tensor;

use super::{Act, ConfigError, Dropout, DropoutClock, LayerSpec, Norm, Scope};
use crate::named::Named;

/// What follows a convolution.
#[derive(Clone, Debug)]
pub struct AdnOptions {
    /// Letters of A, D and N in order; letters without a layer are passed over.
    pub ordering: String,
    /// The activation, if any.
    pub act: Option<LayerSpec>,
    /// The norm, if any.
    pub norm: Option<LayerSpec>,
    /// The dropout probability, if any.
    pub dropout: Option<f64>,
    /// What the dropout layers key their draws by.
    pub clock: DropoutClock,
}

/// One layer of an [`Adn`].
#[derive(Module, Debug)]
// A network has a few dozen of them, and modules cannot be boxed.
#[allow(clippy::large_enum_variant)]
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

/// A spec with the empty name is MONAI's way to say "none".
fn given(spec: &Option<LayerSpec>) -> Option<&LayerSpec> {
    spec.as_ref().filter(|spec| !spec.name().is_empty())
}

impl AdnOptions {
    /// Builds the layers for this many channels.
    pub fn build(&self, scope: &Scope, channels: usize) -> Result<Adn, ConfigError> {
        let mut layers: Vec<(String, AdnLayer)> = Vec::new();
        for letter in self.ordering.to_uppercase().chars() {
            let name = letter.to_string();
            let scope = scope.enter(&name);
            let layer = match letter {
                'A' => given(&self.act).map(|spec| Act::new(&scope, spec)).transpose()?.map(AdnLayer::Act),
                'N' => given(&self.norm).map(|spec| Norm::new(&scope, spec, channels)).transpose()?.map(AdnLayer::Norm),
                'D' => {
                    self.dropout.map(|p| Dropout::new(scope.path(), p, &self.clock)).transpose()?.map(AdnLayer::Dropout)
                }
                _ => {
                    return Err(ConfigError::value("adn_ordering", &self.ordering, "expected letters of A, D and N"));
                }
            };
            // A letter given twice is one module in PyTorch's Sequential: the name is the key.
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
    /// Same shape out as in.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.iter().fold(x, |x, layer| match layer {
            AdnLayer::Act(act) => act.forward(x),
            AdnLayer::Dropout(dropout) => dropout.forward(x),
            AdnLayer::Norm(norm) => norm.forward(x),
        })
    }
}
