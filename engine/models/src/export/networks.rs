//! The networks that MONAI builds from the same parameters, with the same weight names.

use hearth_registry::Fault;
use serde_json::{Map, Value};

use super::rule::Rule::{NoEffect, Only};
use super::rule::{Row, Rule, Scope, component, parameters};
use hearth_recipe::recipe::Recipe;

/// Weights come from the bundle's own file.
const UNTRAINED: &[(&str, Rule)] = &[("pretrained", NoEffect)];

/// A residual network of a fixed size, which its name defines.
const FIXED_RESNET: &[(&str, Rule)] =
    &[("block", Only("null")), ("layers", Only("null")), ("block_inplanes", Only("null"))];

/// A network with squeeze and excitation of a fixed size.
const FIXED_SENET: &[(&str, Rule)] = &[("block", Only("null"))];

/// Networks whose output in evaluation is one tensor.
const KNOWN: &[Row] = &[
    Row::same("AHNet"),
    Row::same("AttentionUnet"),
    Row::same("AutoEncoder"),
    Row::same("BasicUNet"),
    Row::same("Classifier"),
    Row::same("Critic"),
    Row::of("DenseNet", UNTRAINED),
    Row::same("DenseNet121"),
    Row::same("DenseNet169"),
    Row::same("DenseNet201"),
    Row::same("DenseNet264"),
    Row::same("Discriminator"),
    Row::same("DynUNet"),
    Row::same("EfficientNetBN"),
    Row::same("FlexibleUNet"),
    Row::same("Generator"),
    Row::same("HighResNet"),
    Row::same("Regressor"),
    Row::of("ResNet", UNTRAINED),
    Row::of("resnet10", FIXED_RESNET),
    Row::of("resnet18", FIXED_RESNET),
    Row::of("resnet34", FIXED_RESNET),
    Row::of("resnet50", FIXED_RESNET),
    Row::of("resnet101", FIXED_RESNET),
    Row::of("resnet152", FIXED_RESNET),
    Row::of("resnet200", FIXED_RESNET),
    Row::same("SegResNet"),
    Row::same("SegResNetDS"),
    Row::of("SENet", UNTRAINED),
    Row::of("SENet154", FIXED_SENET),
    Row::of("SEResNet50", FIXED_SENET),
    Row::of("SEResNet101", FIXED_SENET),
    Row::of("SEResNet152", FIXED_SENET),
    Row::of("SEResNext50", FIXED_SENET),
    Row::of("SEResNext101", FIXED_SENET),
    Row::same("SwinUNETR"),
    // Networks without ImageNet weights do not transform their input.
    Row::of("TorchVisionFCModel", &[("transform_input", Only("false"))]),
    Row::same("UNet"),
    Row::same("UNETR"),
    // Dropout has no effect in evaluation.
    Row::of("VNet", &[("base", Only("16")), ("dropout_prob_top", NoEffect)]),
];

/// Networks of MONAI that an evaluator cannot run directly.
const REFUSED: [(&str, &str); 7] = [
    ("AutoencoderKL", "MONAI's returns a tuple, of which an evaluator takes no part"),
    ("BasicUNetPlusPlus", "MONAI's returns a list, of which an evaluator takes no part"),
    ("DiffusionModelUNet", "it takes a time besides the image"),
    ("DiNTS", "its topology is an object that a configuration does not hold"),
    ("SegResNetVAE", "MONAI's returns a tuple, of which an evaluator takes no part"),
    ("VarAutoEncoder", "MONAI's returns a tuple, of which an evaluator takes no part"),
    ("ViT", "MONAI's returns a tuple, of which an evaluator takes no part"),
];

/// Converts the network of a recipe to a MONAI component.
///
/// # Errors
/// A network or a parameter that MONAI does not have, with its key in the recipe.
pub(super) fn network(recipe: &Recipe) -> Result<Value, Fault> {
    let name = recipe.network.name();
    let Some(row) = KNOWN.iter().find(|row| row.name == name) else {
        let known = REFUSED.iter().find(|(refused, _)| *refused == name);
        let why = known.map_or("MONAI has no such network of the same parameters", |(_, why)| why);
        return Err(Fault::at("network.name", format!("the network {name} cannot be exported: {why}")));
    };
    let mut table = table(recipe)?;
    table.remove("name");
    let written = parameters(row, &table, Scope::one(dims(recipe))).map_err(|fault| fault.under("network"))?;
    Ok(component(row.name, &[], written))
}

/// The network's table with all defaults.
fn table(recipe: &Recipe) -> Result<Map<String, Value>, Fault> {
    let table = serde_json::to_value(recipe.network.node()).map_err(|error| Fault::at("network", error.to_string()))?;
    Ok(table.as_object().cloned().unwrap_or_default())
}

/// The number of axes of the images: that of the network, by its table or by a shape with channels,
/// or else three; also three if slices of volumes pass through it.
pub(super) fn dims(recipe: &Recipe) -> usize {
    if recipe.inferer.name() == "SliceInferer" {
        return 3;
    }
    let node = recipe.network.node();
    let number = |key: &str| node.get(key).and_then(|node| usize::try_from(node.to_toml().as_integer()?).ok());
    let shape = |key: &str| node.get(key).map(|node| node.items().len().saturating_sub(1)).filter(|dims| *dims > 0);
    let given = number("spatial_dims").or_else(|| number("dim"));
    given.or_else(|| shape("in_shape")).or_else(|| shape("start_shape")).unwrap_or(3)
}

#[cfg(test)]
mod tests {
    use hearth_nn::networks::NetworkSpec;
    use hearth_registry::Registry;

    use super::*;
    use crate::export::monai;

    #[test]
    fn parameters_are_those_of_monai() {
        let registry = Registry::<NetworkSpec>::new();
        for row in KNOWN {
            let entry = registry.entries().iter().find(|entry| entry.name == row.name);
            let entry = entry.unwrap_or_else(|| panic!("no network {}", row.name));
            let ours = monai::ours(&(entry.schema)());
            for (key, _) in row.rules {
                assert!(ours.iter().any(|known| known == key), "{}.{key} is no parameter here", row.name);
            }
            let theirs = monai::parameters("networks", row.name);
            // Parameters that MONAI passes on to another class have no names here.
            if theirs.iter().any(|known| known == "kwargs") {
                continue;
            }
            for key in ours.iter().filter(|key| !matches!(row.rule(key), Some(NoEffect | Only(_)))) {
                assert!(theirs.iter().any(|known| known == key), "MONAI's {} has no {key}", row.name);
            }
        }
    }
}
