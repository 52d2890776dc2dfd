//! Comparison of the lines of two recipes, and of the keys of several.

use std::ops::Range;

use imara_diff::{Algorithm, Diff, Hunk, InternedInput};
use maud::{Markup, html};
use toml::{Table, Value};

/// The number of unchanged lines shown around a change.
const CONTEXT: u32 = 2;

/// The lines of two texts, and their differences.
fn compared<'a>(before: &'a str, after: &'a str) -> (InternedInput<&'a str>, Diff) {
    let lines = InternedInput::new(before, after);
    let mut diff = Diff::compute(Algorithm::Myers, &lines);
    diff.postprocess_lines(&lines);
    (lines, diff)
}

/// The number of lines that differ between two texts, used to find the closest of several texts.
pub fn changed_lines(before: &str, after: &str) -> usize {
    let (_, diff) = compared(before, after);
    (diff.count_removals() + diff.count_additions()) as usize
}

/// The changed lines of two texts with some lines around them; `None` if there are none.
pub fn lines(before: &str, after: &str) -> Option<Markup> {
    let (lines, diff) = compared(before, after);
    // Changes with overlapping surroundings are shown together.
    let mut groups: Vec<Vec<Hunk>> = Vec::new();
    for hunk in diff.hunks() {
        match groups.last_mut() {
            Some(group) if group.last().is_some_and(|last| hunk.before.start - last.before.end <= 2 * CONTEXT) => {
                group.push(hunk);
            }
            _ => groups.push(vec![hunk]),
        }
    }
    let text = |token| lines.interner[token].trim_end_matches(['\n', '\r']);
    let of = |range: Range<u32>| lines.before[range.start as usize..range.end as usize].iter().map(|t| text(*t));
    let added = |range: Range<u32>| lines.after[range.start as usize..range.end as usize].iter().map(|t| text(*t));
    let end = lines.before.len() as u32;
    (!groups.is_empty()).then(|| {
        html! {
            pre.diff tabindex="0" {
                @for (place, group) in groups.iter().enumerate() {
                    @if place > 0 { span.gap aria-hidden="true" { "⋯\n" } }
                    @for (number, hunk) in group.iter().enumerate() {
                        @let first = match number {
                            0 => hunk.before.start.saturating_sub(CONTEXT),
                            _ => group[number - 1].before.end,
                        };
                        @let next = match group.get(number + 1) {
                            Some(_) => hunk.before.end,
                            None => end.min(hunk.before.end + CONTEXT),
                        };
                        @for line in of(first..hunk.before.start) { span { "  " (line) "\n" } }
                        @for line in of(hunk.before.clone()) { del { "- " (line) "\n" } }
                        @for line in added(hunk.after.clone()) { ins { "+ " (line) "\n" } }
                        @for line in of(hunk.before.end..next) { span { "  " (line) "\n" } }
                    }
                }
            }
        }
    })
}

/// A recipe key with different values, and the value in each recipe.
pub struct Difference {
    /// The dotted key.
    pub key: String,
    /// The value in each recipe as TOML; `None` if the recipe does not set the key.
    pub values: Vec<Option<String>>,
}

/// The keys whose values are not the same in all recipes. A text that is not valid TOML has no keys.
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

    /// The grouping of `diff -U2`: changes five lines apart are separate, and four lines between
    /// changes are shown.
    #[test]
    fn changes_are_shown_with_the_lines_around_them() {
        let before: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let after = before.replace("\n3\n", "\nx\n").replace("\n8\n", "\n").replace("\n14\n", "\n14\ny\n");
        let found = lines(&before, &after).expect("changes").into_string();
        let shown: Vec<&str> = found.split('\n').map(|line| line.rsplit('>').next().unwrap_or(line)).collect();
        let expected = [
            "  1", "  2", "- 3", "+ x", "  4", "  5", "  6", "  7", "- 8", "  9", "  10", "⋯", "  13", "  14", "+ y",
            "  15", "  16", "",
        ];
        assert_eq!(shown, expected, "{found}");
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
