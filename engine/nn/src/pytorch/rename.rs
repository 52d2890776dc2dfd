//! Rules that rename the keys of one network to those of another.

use std::str::FromStr;

use regex::Regex;

/// A rule `FROM=TO`: every match of the regular expression `FROM` in a key is replaced by `TO`,
/// where `$1` is the first group.
#[derive(Clone, Debug)]
pub struct Rule {
    from: Regex,
    to: String,
    text: String,
}

/// A rule that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rule {rule:?}: {reason}")]
pub struct RuleError {
    /// The rule as written.
    pub rule: String,
    /// Description of the problem.
    pub reason: String,
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(rule: &str) -> Result<Self, RuleError> {
        let fail = |reason: String| RuleError { rule: rule.to_owned(), reason };
        let (from, to) =
            rule.split_once('=').ok_or_else(|| fail("expected FROM=TO, like '^encoder[.]=net.encoder.'".to_owned()))?;
        if from.is_empty() {
            return Err(fail("there is nothing to look for before the =".to_owned()));
        }
        let from = Regex::new(from).map_err(|error| fail(error.to_string()))?;
        Ok(Rule { from, to: to.to_owned(), text: rule.to_owned() })
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Rule {
    /// Applies all rules to a key in order, and counts the rules that changed it.
    pub(crate) fn apply_all(rules: &[Rule], key: &str, changed: &mut [usize]) -> String {
        rules.iter().zip(changed).fold(key.to_owned(), |key, (rule, changed)| {
            let new = rule.apply(&key);
            *changed += usize::from(new != key);
            new
        })
    }

    /// Applies the rule to a key.
    pub fn apply(&self, key: &str) -> String {
        self.from.replace_all(key, self.to.as_str()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::Rule;

    #[test]
    fn groups_are_kept() {
        let rule: Rule = r"^block(\d+)[.]=blocks.$1.".parse().expect("a rule");
        assert_eq!(rule.apply("block12.conv.weight"), "blocks.12.conv.weight");
        assert_eq!(rule.apply("head.block1.weight"), "head.block1.weight");
        assert!("(=x".parse::<Rule>().is_err() && "abc".parse::<Rule>().is_err() && "=x".parse::<Rule>().is_err());
    }
}
