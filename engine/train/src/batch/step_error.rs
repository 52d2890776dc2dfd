//! Errors of an iteration. They name the cases.

use hearth_engine::BoxError;

/// The error of an iteration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// A part of the iteration failed.
    #[error("{part} failed on {cases}")]
    Part {
        /// The part: `the forward pass`, `the loss`, ...
        part: &'static str,
        /// The cases of the batch.
        cases: String,
        /// The cause.
        #[source]
        source: BoxError,
    },
    /// The batch lacks a tensor.
    #[error("the batch of {cases} has no `{key}`; it has: {known}")]
    NoTensor {
        /// The missing tensor's key.
        key: String,
        /// The cases of the batch.
        cases: String,
        /// The tensors that the batch has.
        known: String,
    },
    /// The loss is not a scalar that depends on the network.
    #[error(
        "the loss of {cases} does not depend on the network's weights, so there is no gradient; is everything frozen?"
    )]
    NoGradient {
        /// The cases of the batch.
        cases: String,
    },
    /// The network was lost when an earlier step failed.
    #[error("there is no network: the optimizer failed in an earlier step; load a checkpoint")]
    NoNetwork,
}

impl StepError {
    pub(crate) fn part(part: &'static str, cases: &[String], source: impl Into<BoxError>) -> Self {
        Self::Part { part, cases: name_cases(cases), source: source.into() }
    }
}

/// The names of a batch's cases, limited to a few.
pub(crate) fn name_cases(cases: &[String]) -> String {
    const SHOWN: usize = 6;
    let mut distinct: Vec<&str> = Vec::new();
    for case in cases {
        // Several crops of one case are adjacent.
        if !distinct.contains(&case.as_str()) {
            distinct.push(case);
        }
    }
    match distinct.len() {
        0 => "a batch without names".to_owned(),
        n if n <= SHOWN => distinct.join(", "),
        n => format!("{} and {} more", distinct[..SHOWN].join(", "), n - SHOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::name_cases;

    #[test]
    fn each_case_is_named_once_and_not_too_many() {
        let cases = |n: usize| (0..n).map(|i| format!("case_{}", i / 2)).collect::<Vec<_>>();
        assert_eq!(name_cases(&cases(4)), "case_0, case_1");
        assert!(name_cases(&cases(20)).ends_with("case_5 and 4 more"));
        assert_eq!(name_cases(&[]), "a batch without names");
    }
}
