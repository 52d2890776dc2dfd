//! What handlers keep besides their own state: values under keys, which checkpoints store, and
//! files in the folder of a run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::error::HostError;
use crate::host::HostTensor;

/// The values that one handler keeps, by key.
pub type Store = BTreeMap<String, Vec<u8>>;

/// The longest key or name, in bytes.
const MAX_NAME: usize = 200;
/// The largest value, in bytes.
const MAX_VALUE: usize = 256 << 20;

/// A file or data that a handler adds to the folder of a run: see [`Host::attach`](crate::Host::attach).
#[derive(Clone, Debug)]
pub enum Attachment<'a> {
    /// The content of a file.
    File(&'a [u8]),
    /// A picture, which becomes a PNG file: `[H, W]` grey or `[H, W, 3]` red, green and blue; u8, or
    /// f32 from 0 to 1.
    Image(HostTensor<'a>),
    /// A text in Markdown, which becomes a file with the ending `.md`.
    Text(&'a str),
}

/// Writes attachments: the handler, the name, the content; returns the file, unless another process
/// writes it. See
/// [`Engine::on_attach`](crate::Engine::on_attach).
pub type Attach = Box<dyn FnMut(&str, &str, &Attachment<'_>) -> Result<Option<PathBuf>, HostError> + Send>;

/// Stores a value of a handler.
pub(crate) fn remember(store: &mut Store, key: &str, value: &[u8]) -> Result<(), HostError> {
    if key.is_empty() || key.len() > MAX_NAME {
        return Err(HostError::new(format!("a key has 1 to {MAX_NAME} bytes, not {}", key.len())));
    }
    if value.len() > MAX_VALUE {
        let what = format!("the value of `{key}` has {} bytes; the limit is {MAX_VALUE}", value.len());
        return Err(HostError::new(what));
    }
    store.insert(key.to_owned(), value.to_vec());
    Ok(())
}

/// Fails for a name that leads out of the folder of a run: each part must be a plain name.
pub(crate) fn check_name(name: &str) -> Result<(), HostError> {
    let plain = |part: &str| {
        !part.is_empty() && !part.starts_with('.') && part.chars().all(|c| c.is_alphanumeric() || "-_. ".contains(c))
    };
    if name.len() <= MAX_NAME && name.split('/').all(plain) {
        return Ok(());
    }
    let what = "a name of letters, digits, `-`, `_` and `.`, in folders or not (`slices/epoch_1`)";
    Err(HostError::new(format!("an attachment has {what}, not {name:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_folder() {
        for name in ["a", "slices/epoch_1.png", "Köln 2"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", "/etc/passwd", "../up", "a//b", "a/", ".hidden", "a\\b", "a:b", "a\0b", &"x".repeat(201)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn keys_and_values_are_limited() {
        let mut store = Store::new();
        assert_eq!(remember(&mut store, "k", b"1"), Ok(()));
        assert_eq!(remember(&mut store, "k", b"2"), Ok(()));
        assert_eq!(store["k"], b"2");
        assert!(remember(&mut store, "", b"").is_err() && remember(&mut store, &"k".repeat(201), b"").is_err());
        assert!(
            remember(&mut store, "large", &vec![0; MAX_VALUE + 1]).is_err_and(|e| e.to_string().contains("`large`"))
        );
    }
}
