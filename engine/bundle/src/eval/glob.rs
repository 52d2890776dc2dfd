//! Python's `glob`: `*` does not match `/`, hidden files are skipped, `[!seg]` matches one character.

use std::path::Path;

/// The paths that match a pattern, sorted and written as Python writes them. Relative paths are
/// resolved against `folder`.
pub fn glob(folder: &Path, pattern: &str, recursive: bool) -> Vec<String> {
    let (root, rest) = match pattern.strip_prefix('/') {
        Some(rest) => ("/", rest),
        None => ("", pattern),
    };
    let parts: Vec<&str> = rest.split('/').collect();
    let mut found = Vec::new();
    walk(folder, root.to_owned(), &parts, recursive, &mut found);
    found.sort_unstable();
    found.dedup();
    found
}

fn is_pattern(part: &str) -> bool {
    part.contains(['*', '?', '['])
}

fn walk(folder: &Path, so_far: String, parts: &[&str], recursive: bool, found: &mut Vec<String>) {
    let Some((part, rest)) = parts.split_first() else {
        found.push(so_far);
        return;
    };
    let joined = |name: &str| match so_far.is_empty() || so_far.ends_with('/') {
        true => format!("{so_far}{name}"),
        false => format!("{so_far}/{name}"),
    };
    if !is_pattern(part) {
        let next = joined(part);
        // A part without a pattern needs no listing; the last one must exist.
        let there = folder.join(&next);
        if if rest.is_empty() { there.symlink_metadata().is_ok() } else { there.is_dir() } {
            walk(folder, next, rest, recursive, found);
        }
        return;
    }
    let Ok(entries) = std::fs::read_dir(folder.join(if so_far.is_empty() { "." } else { &so_far })) else { return };
    let entries = entries.filter_map(Result::ok);
    let mut names: Vec<(String, bool)> =
        entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path().is_dir())).collect();
    names.sort_unstable();
    if *part == "**" && recursive {
        walk(folder, so_far.clone(), rest, recursive, found);
        for (name, is_folder) in names.iter().filter(|(name, _)| !name.starts_with('.')) {
            if *is_folder {
                walk(folder, joined(name), parts, recursive, found);
            }
        }
        return;
    }
    for (name, is_folder) in names {
        let hidden = name.starts_with('.') && !part.starts_with('.');
        if !hidden && fits(&name, part) && (rest.is_empty() || is_folder) {
            walk(folder, joined(&name), rest, recursive, found);
        }
    }
}

/// Whether a name matches a pattern of `fnmatch`.
pub fn fits(name: &str, pattern: &str) -> bool {
    let (name, pattern): (Vec<char>, Vec<char>) = (name.chars().collect(), pattern.chars().collect());
    let (mut n, mut p) = (0, 0);
    // Where to continue after the last `*`.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        let step = match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, n));
                p += 1;
                continue;
            }
            Some('?') => Some(1),
            Some('[') => match class(&pattern[p..]) {
                Some((length, negated, set)) => {
                    let inside = set.iter().any(|(low, high)| (*low..=*high).contains(&name[n]));
                    (inside != negated).then_some(length)
                }
                None => (name[n] == '[').then_some(1),
            },
            Some(c) => (*c == name[n]).then_some(1),
            None => None,
        };
        match (step, star) {
            (Some(length), _) => {
                p += length;
                n += 1;
            }
            (None, Some((after, from))) => {
                p = after;
                n = from + 1;
                star = Some((after, n));
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Ranges of characters.
type Ranges = Vec<(char, char)>;

/// Parses a character class at the start of a pattern: its length, whether it is negated, and its
/// ranges.
fn class(pattern: &[char]) -> Option<(usize, bool, Ranges)> {
    let negated = pattern.get(1) == Some(&'!');
    let start = if negated { 2 } else { 1 };
    // A `]` that comes first is one of the characters.
    let end = (start + 1..pattern.len()).find(|at| pattern[*at] == ']')?;
    let inside = &pattern[start..end];
    let (mut ranges, mut at) = (Vec::new(), 0);
    while at < inside.len() {
        if inside.get(at + 1) == Some(&'-') && at + 2 < inside.len() {
            ranges.push((inside[at], inside[at + 2]));
            at += 3;
        } else {
            ranges.push((inside[at], inside[at]));
            at += 1;
        }
    }
    Some((end + 1, negated, ranges))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_in_python() {
        for (name, pattern, wanted) in [
            ("a.nii.gz", "*.nii*", true),
            ("frame_1_seg.png", "*[!seg].png", false),
            ("frame_1.png", "*[!seg].png", true),
            ("x", "?", true),
            ("[", "[[]", true),
            ("b", "[a-c]", true),
            ("abcb", "a*b", true),
            ("abc", "a*b", false),
        ] {
            assert_eq!(fits(name, pattern), wanted, "{name} {pattern}");
        }
    }

    #[test]
    fn folders_are_gone_through_in_order() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        for file in ["in/b/2.nii", "in/a/1.nii", "in/a/.3.nii", "in/4.nii"] {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().expect("in a folder"))?;
            std::fs::write(path, "")?;
        }
        let found = |pattern: &str, recursive: bool| glob(folder.path(), pattern, recursive);
        assert_eq!(found("in/*/*.nii", false), ["in/a/1.nii", "in/b/2.nii"]);
        assert_eq!(found("./in/*.nii", false), ["./in/4.nii"]);
        assert_eq!(found("in/**/*.nii", true), ["in/4.nii", "in/a/1.nii", "in/b/2.nii"]);
        assert!(found("out/*", false).is_empty());
        Ok(())
    }
}
