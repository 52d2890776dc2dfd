//! Names of checkpoint folders and of the files in them.

use super::CheckpointError;

/// The name of a checkpoint's folder: names sort in the order of the run. `again` counts, from 1,
/// how often this iteration was saved.
///
/// # Errors
/// [`CheckpointError::Tag`] for a tag that is empty, has more than 64 bytes, starts with `.`, or has
/// other characters than ASCII letters, digits, `_`, `-` and `.`.
pub fn folder_name(epoch: u64, iteration: u64, tag: &str, again: u32) -> Result<String, CheckpointError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if tag.is_empty() || tag.len() > 64 || tag.starts_with('.') || !tag.chars().all(fits) {
        return Err(CheckpointError::Tag { tag: tag.to_owned() });
    }
    let name = format!("epoch={epoch:04}-iteration={iteration:06}-{tag}");
    Ok(if again > 1 { format!("{name}~{again}") } else { name })
}

/// When a checkpoint was written: epoch, iteration, and how often this iteration was saved.
pub(super) type Time = (u64, u64, u32);

/// Time and tag in the name of a checkpoint's folder.
pub(super) fn parts_of(name: &str) -> Option<(Time, &str)> {
    let (epoch, rest) = name.strip_prefix("epoch=")?.split_once("-iteration=")?;
    let (iteration, tag) = rest.split_once('-')?;
    let (tag, again) = tag.split_once('~').unwrap_or((tag, "1"));
    Some(((epoch.parse().ok()?, iteration.parse().ok()?, again.parse().ok()?), tag))
}

/// A file name for any text (a handler's name). A byte that is not a lowercase ASCII letter, a digit,
/// `_`, `-` or `.` (or is a `.` at the start) becomes `%XX`; a very long name is cut and gets a hash.
/// Two different texts get two different names, even on a file system that ignores case.
pub fn file_name_of(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    for (i, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => name.push(char::from(byte)),
            b'.' if i > 0 => name.push('.'),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    if name.is_empty() || name.len() > 100 {
        let sum = blake3::hash(text.as_bytes()).to_hex();
        // Every character of `name` is one byte.
        name.truncate(60);
        name.push('~');
        name.push_str(&sum[..16]);
    }
    name
}

/// Checks that a relative path stays within the checkpoint.
pub(super) fn check_relative(name: &str) -> Result<(), CheckpointError> {
    let fits = |part: &str| {
        !part.is_empty() && part != "." && part != ".." && !part.contains(['\\', ':', '\0']) && part.len() <= 128
    };
    if name.len() > 200 || name == super::MANIFEST || !name.split('/').all(fits) {
        return Err(CheckpointError::FileName { name: name.to_owned() });
    }
    Ok(())
}
