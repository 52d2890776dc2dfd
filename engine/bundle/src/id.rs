//! Ids: the keys and indices that lead to an item, joined by `::`.

use serde_json::Value;

/// The separator of the parts of an id.
pub const SEP: &str = "::";

/// The id with the older separator `#` replaced.
pub fn normal(text: &str) -> String {
    text.replace('#', SEP)
}

/// The id of a part of an item.
pub fn join(id: &str, part: &str) -> String {
    if id.is_empty() { part.to_owned() } else { format!("{id}{SEP}{part}") }
}

/// Splits an id into its parts.
pub fn parts(id: &str) -> Vec<&str> {
    if id.is_empty() { Vec::new() } else { id.split(SEP).collect() }
}

/// Finds the item of an id.
pub fn find<'a>(root: &'a Value, id: &str) -> Option<&'a Value> {
    parts(id).into_iter().try_fold(root, |item, part| match item {
        Value::Object(table) => table.get(part),
        Value::Array(list) => list.get(index(part, list.len())?),
        _ => None,
    })
}

/// Finds the item of an id, mutably.
pub fn find_mut<'a>(root: &'a mut Value, id: &str) -> Option<&'a mut Value> {
    parts(id).into_iter().try_fold(root, |item, part| match item {
        Value::Object(table) => table.get_mut(part),
        Value::Array(list) => {
            let at = index(part, list.len())?;
            list.get_mut(at)
        }
        _ => None,
    })
}

/// Parses an index of a list, with Python's rules.
pub fn index(part: &str, len: usize) -> Option<usize> {
    let at: i64 = part.parse().ok()?;
    usize::try_from(if at < 0 { at + len as i64 } else { at }).ok()
}

/// Replaces relative ids such as `@::x` and `%::x` anywhere in a text by absolute ones. `id` is the
/// id of the item with this text.
pub fn absolute(text: &str, id: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['@', '%']) {
        let sign = &rest[at..=at];
        let colons = rest[at + 1..].len() - rest[at + 1..].trim_start_matches(':').len();
        out += &rest[..at];
        let levels = colons / 2;
        if levels == 0 {
            out += sign;
            rest = &rest[at + 1..];
            continue;
        }
        let own = parts(id);
        if levels > own.len() {
            return Err(format!("the relative id in {text:?} goes {levels} levels up, beyond the root of the config"));
        }
        out += sign;
        let above = own[..own.len() - levels].join(SEP);
        if !above.is_empty() {
            out += &above;
            out += SEP;
        }
        rest = &rest[at + 1 + colons..];
    }
    Ok(out + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_ids_count_from_the_item() {
        assert_eq!(absolute("@::x", "a::b").as_deref(), Ok("@a::x"));
        assert_eq!(absolute("$@::::x + @y", "a::b").as_deref(), Ok("$@x + @y"));
        assert_eq!(absolute("%::x", "a").as_deref(), Ok("%x"));
        assert!(absolute("@::::x", "a").is_err());
    }
}
