//! What the ranks of one run know, and no one else: [`Secret`].

use std::fmt;

use super::TcpError;

/// A random key. Ranks that connect prove to each other that they know it, without sending it.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    /// Draws a secret.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn draw() -> Result<Self, TcpError> {
        Ok(Self(random()?))
    }

    /// The secret as 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// Reads [`Secret::to_hex`]; `None` for another text.
    pub fn of_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(|hash| Self(*hash.as_bytes()))
    }

    /// The proof of knowing the secret for this text. It is compared in constant time.
    pub(super) fn proof(&self, text: &[u8]) -> blake3::Hash {
        blake3::keyed_hash(&self.0, text)
    }
}

/// Never prints the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Bytes that no one can guess.
pub(super) fn random() -> Result<[u8; 32], TcpError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| TcpError::Random(error.to_string()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_passed_as_text_and_never_printed() {
        let secret = Secret::draw().expect("random numbers");
        let text = secret.to_hex();
        let same = Secret::of_hex(&text).expect("the same secret");
        assert_eq!(secret.proof(b"text"), same.proof(b"text"));
        assert_ne!(secret.proof(b"text"), secret.proof(b"other"));
        assert_ne!(secret.proof(b"text"), Secret::draw().expect("random numbers").proof(b"text"));
        assert!(!format!("{secret:?}").contains(&text[..8]));
        assert!(Secret::of_hex(&text[..63]).is_none() && Secret::of_hex("").is_none());
    }
}
