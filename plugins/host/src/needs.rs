//! The capabilities that a plugin declares in its identity.

use hearth_plugin::identity;
use serde::{Deserialize, Serialize};

/// A capability of a plugin, as declared by its author. A library has the rights of the program;
/// the list is not enforced for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// Communicates with other machines.
    Network,
    /// Reads or writes files.
    Files,
    /// Starts other programs.
    Programs,
    /// Changes the run: its end, its learning rate, its tensors.
    ChangesRun,
}

impl Need {
    const ALL: [(Need, u32); 4] = [
        (Need::Network, identity::NETWORK),
        (Need::Files, identity::FILES),
        (Need::Programs, identity::PROGRAMS),
        (Need::ChangesRun, identity::CHANGES_RUN),
    ];

    /// The capability in words.
    pub fn words(self) -> &'static str {
        match self {
            Need::Network => "talks to other machines",
            Need::Files => "reads or writes files",
            Need::Programs => "starts other programs",
            Need::ChangesRun => "changes the run",
        }
    }

    /// The capabilities that an identity's flags declare; `None` if the plugin declares nothing.
    pub(crate) fn of(flags: u32) -> Option<Vec<Need>> {
        (flags & identity::DECLARED != 0)
            .then(|| Need::ALL.into_iter().filter(|(_, bit)| flags & bit != 0).map(|(need, _)| need).collect())
    }
}

/// Describes a list of capabilities.
pub fn describe(needs: Option<&[Need]>) -> String {
    match needs {
        None => "its author does not say".to_owned(),
        Some([]) => "nothing beyond reading the run's numbers and logging".to_owned(),
        Some(needs) => needs.iter().map(|need| need.words()).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_words() {
        assert_eq!(Need::of(identity::UNWINDS), None);
        assert_eq!(Need::of(identity::DECLARED), Some(vec![]));
        let all = Need::of(identity::DECLARED | identity::NETWORK | identity::CHANGES_RUN).expect("declared");
        assert_eq!(describe(Some(&all)), "talks to other machines, changes the run");
        assert_eq!(describe(None), "its author does not say");
    }
}
