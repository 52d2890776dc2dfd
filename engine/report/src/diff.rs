//! Lines of two recipes compared, and keys of several.

use maud::{Markup, html};
use similar::{ChangeTag, TextDiff};
use toml::{Table, Value};

/// Unchanged lines around a change.
const CONTEXT: usize = 2;

/// How many lines of two texts differ: to find the one of several that a text comes from.
pub fn changed_lines(before: &str, after: &str) -> usize {
    let diff = TextDiff::from_lines(before, after);
    diff.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal).count()
}

/// The changed lines of two texts with some around them; `None` where there are none.
pub fn lines(before: &str, after: &str) -> Option<Markup> {
    let diff = TextDiff::from_lines(before, after);
    let groups = diff.grouped_ops(CONTEXT);
    if groups.is_empty() {
        return None;
    }
    Some(html! {
        pre.diff tabindex="0" {
            @for (place, group) in groups.iter().enumerate() {
                @if place > 0 { span.gap aria-hidden="true" { "⋯\n" } }
                @for op in group {
                    @for change in diff.iter_changes(op) {
                        @let text = change.value().trim_end_matches(['\n', '\r']);
                        @match change.tag() {
                            ChangeTag::Delete => { del { "- " (text) "\n" } },
                            ChangeTag::Insert => { ins { "+ " (text) "\n" } },
                            ChangeTag::Equal => { span { "  " (text) "\n" } },
                        }
                    }
                }
            }
        }
    })
}

/// A key of recipes whose values differ, with the value of each.
pub struct Difference {
    /// The dotted key.
    pub key: String,
    /// The value of each recipe as TOML; `None` where it does not set the key.
    pub values: Vec<Option<String>>,
}

/// The keys whose values are not the same in all recipes. One that is no TOML has no keys.
pub fn keys(recipes: &[&str]) -> Vec<Difference> {
    let flat: Vec<Vec<(String, String)>> = recipes
        .iter()
        .map(|text| {
            let mut entries = Vec::new();
            if let Ok(table) = text.parse::<Table>() {
                flatten("", &Value::Table(table), &mut entries);
            }
            entries
        })
        .collect();
    let mut known: Vec<&String> = Vec::new();
    for (key, _) in flat.iter().flatten() {
        if !known.contains(&key) {
            known.push(key);
        }
    }
    let of = |entries: &Vec<(String, String)>, key: &String| {
        entries.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
    };
    let row =
        |key: &String| Difference { key: key.clone(), values: flat.iter().map(|entries| of(entries, key)).collect() };
    known.into_iter().map(row).filter(|row| row.values.windows(2).any(|pair| pair[0] != pair[1])).collect()
}

fn flatten(name: &str, value: &Value, entries: &mut Vec<(String, String)>) {
    let join = |part: &str| if name.is_empty() { part.to_owned() } else { format!("{name}.{part}") };
    match value {
        Value::Table(table) if !table.is_empty() => {
            table.iter().for_each(|(part, value)| flatten(&join(part), value, entries));
        }
        Value::Array(items) if items.iter().any(Value::is_table) => {
            items.iter().enumerate().for_each(|(place, item)| flatten(&join(&place.to_string()), item, entries));
        }
        value => entries.push((name.to_owned(), value.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_marked_and_escaped() {
        let found = lines("a = 1\nb = 2\n", "a = 1\nb = \"<3\"\n").expect("a change").into_string();
        assert!(
            found.contains("<del>- b = 2\n</del>") && found.contains("<ins>+ b = &quot;&lt;3&quot;\n</ins>"),
            "{found}"
        );
        assert!(lines("a\n", "a\n").is_none());
        assert_eq!((changed_lines("a\nb\n", "a\nc\n"), changed_lines("a\n", "a\n")), (2, 0));
    }

    #[test]
    fn keys_that_differ_are_listed_once() {
        let found = keys(&["lr = 0.1\n[x]\ny = 1\n", "lr = 0.2\n[x]\ny = 1\nz = \"a\"\n", "not TOML ["]);
        let shown: Vec<(&str, Vec<Option<&str>>)> =
            found.iter().map(|row| (row.key.as_str(), row.values.iter().map(Option::as_deref).collect())).collect();
        assert_eq!(
            shown,
            [
                ("lr", vec![Some("0.1"), Some("0.2"), None]),
                ("x.y", vec![Some("1"), Some("1"), None]),
                ("x.z", vec![None, Some("\"a\""), None]),
            ]
        );
    }
}
