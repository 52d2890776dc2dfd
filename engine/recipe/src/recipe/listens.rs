//! Whose events a handler or a plugin of the recipe listens to: `engine = "validation"`.

use hearth_registry::{Fault, Node, read};
use serde::{Deserialize, Serialize};

/// Whose events a handler or a plugin listens to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listens {
    /// The trainer's.
    #[default]
    Train,
    /// The evaluator's: in each validation of a training, and in `hearth evaluate`.
    Validation,
}

/// The key.
const KEY: &str = "engine";

impl Listens {
    /// Reads the key from a handler's table; by default the trainer's.
    ///
    /// # Errors
    /// When it names another engine.
    pub fn of(handler: &Node) -> Result<Self, Fault> {
        match handler.get(KEY) {
            Some(word) => read(word).map_err(|fault: Fault| fault.under(KEY)),
            None => Ok(Self::Train),
        }
    }

    /// The table without this key: the handler's own options remain.
    pub fn taken_from(handler: &Node) -> Node {
        let mut own = handler.clone();
        own.remove(KEY);
        own
    }

    /// Whether it is the default.
    pub fn is_train(&self) -> bool {
        *self == Self::Train
    }

    /// The name in a recipe.
    pub fn word(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
        }
    }
}
