//! Losses and optimizers that converge faster according to the fast-training guides: [`converging`].

use hearth_recipe::recipe::{Document, Node, Recipe};

/// A change that may make a training converge faster. Only training runs show whether it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// A short description of the change.
    pub lever: &'static str,
    /// The line of the recipe.
    pub line: String,
    /// The same change as keys, in the form of `--set`.
    pub sets: Vec<String>,
}

/// Options that a Dice loss shares with losses that add another term to it.
const SHARED: [&str; 8] =
    ["include_background", "to_onehot_y", "sigmoid", "softmax", "squared_pred", "jaccard", "smooth_nr", "smooth_dr"];

/// The changes of the guides that this recipe lacks: a Dice loss over the whole batch with
/// cross-entropy, or for regions with a focal term; Novograd instead of Adam, with ten times its
/// rate.
pub fn converging(document: &Document, recipe: &Recipe) -> Vec<Candidate> {
    let mut found = Vec::new();
    let root = document.root();
    let loss = root.get("loss").filter(|_| recipe.loss.as_ref().is_some_and(|loss| loss.name() == "DiceLoss"));
    if let Some(loss) = loss.filter(|_| recipe.discriminator.is_none()) {
        let exclusive = loss.get("softmax").is_some_and(|softmax| *softmax == Node::from(true));
        let name = if exclusive { "DiceCELoss" } else { "DiceFocalLoss" };
        let mut table = Node::named(name);
        for key in SHARED {
            if let Some(value) = loss.get(key) {
                table.insert(key, value.clone());
            }
        }
        // A region that is missing in all crops of a batch gets no loss of its own.
        table.insert("batch", Node::from(true));
        // Only needed for the plain Dice loss.
        table.remove("smooth_nr");
        let text = table.to_toml().to_string();
        found.push(Candidate {
            lever: "a loss that converges faster",
            line: format!("loss = {text}"),
            sets: vec![format!("loss={text}")],
        });
    }
    if let Some(optimizer) = root.get("optimizer").filter(|_| recipe.optimizer.name() == "Adam") {
        let mut table = Node::named("Novograd").with("lr", Node::from(recipe.optimizer.lr() * 10.0));
        for key in ["weight_decay", "amsgrad"] {
            if let Some(value) = optimizer.get(key) {
                table.insert(key, value.clone());
            }
        }
        let text = table.to_toml().to_string();
        found.push(Candidate {
            lever: "an optimizer that converges faster",
            line: format!("optimizer = {text}"),
            sets: vec![format!("optimizer={text}")],
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_recipe::recipe::bundled;

    fn of(name: &str) -> Vec<String> {
        let document = bundled::find(name).expect("bundled").document().expect("sound");
        let recipe = Recipe::read(&document).expect("sound");
        let candidates = converging(&document, &recipe);
        for candidate in &candidates {
            let mut changed = document.clone();
            candidate.sets.iter().try_for_each(|set| changed.set(set)).expect("a change");
            Recipe::read(&changed).expect("the changed recipe is one");
        }
        candidates.into_iter().flat_map(|candidate| candidate.sets).collect()
    }

    #[test]
    fn regular_recipes_have_what_the_fast_ones_found() {
        let spleen = of("spleen-regular");
        assert!(spleen[0].starts_with("loss={") && spleen[0].contains("DiceCELoss"), "{spleen:?}");
        assert!(spleen[1].contains("Novograd") && spleen[1].contains("0.002"), "{spleen:?}");
        let brats = of("brats-regular");
        assert!(brats[0].contains("DiceFocalLoss") && brats[0].contains("sigmoid"), "{brats:?}");
        assert_eq!(of("spleen"), Vec::<String>::new(), "it has both");
        assert_eq!(of("gan").len(), 1, "two networks have no loss to change");
    }
}
