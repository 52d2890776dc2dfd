//! The engine whose events a handler or a plugin of the recipe receives: `engine = "validation"`.

use hearth_registry::{Fault, Node, read};
use serde::{Deserialize, Serialize};

/// The engine whose events a handler or a plugin receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listens {
    /// The trainer.
    #[default]
    Train,
    /// The evaluator: in each validation of a training, and in `hearth evaluate`.
    Validation,
}

/// The key in a recipe.
const KEY: &str = "engine";

impl Listens {
    /// Reads the key from a handler's table; the default is the trainer.
    ///
    /// # Errors
    /// A key that names another engine.
    pub fn of(handler: &Node) -> Result<Self, Fault> {
        match handler.get(KEY) {
            Some(word) => read(word).map_err(|fault: Fault| fault.under(KEY)),
            None => Ok(Self::Train),
        }
    }

    /// The table without this key, which leaves the handler's own options.
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
