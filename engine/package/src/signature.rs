//! Ed25519 keys as `openssl genpkey -algorithm ed25519` writes them.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use crate::error::PackageError;

/// The largest size of a key file in bytes.
const MAX_FILE: u64 = 64 << 10;

/// The bytes before the 32 bytes of a public key: SubjectPublicKeyInfo of id-Ed25519 (RFC 8410).
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The secret half of a key pair. It is never printed or written.
pub struct SigningKey(Ed25519KeyPair);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey").field(&self.public()).finish()
    }
}

impl SigningKey {
    /// Reads a secret key in PEM: PKCS #8, without a password.
    ///
    /// # Errors
    /// A file that cannot be read, or that holds no such key.
    pub fn open(path: &Path) -> Result<Self, PackageError> {
        let der = pem(path, "PRIVATE KEY", "a secret key (openssl genpkey -algorithm ed25519)")?;
        let read = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der);
        read.map(Self).map_err(|why| PackageError::key(path, format!("holds no secret key of Ed25519: {why}")))
    }

    /// The public half of the key pair.
    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(bytes)
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(message).as_ref().to_vec()
    }
}

/// The public half of a key pair.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl fmt::Display for PublicKey {
    /// Formats the key as 64 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl PublicKey {
    /// Reads a public key in PEM, as `openssl pkey -pubout` writes it.
    ///
    /// # Errors
    /// A file that cannot be read, or that holds no such key.
    pub fn open(path: &Path) -> Result<Self, PackageError> {
        let der = pem(path, "PUBLIC KEY", "a public key (openssl pkey -pubout)")?;
        let bytes = der.strip_prefix(&SPKI).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        bytes.map(Self).ok_or_else(|| PackageError::key(path, "holds no public key of Ed25519"))
    }

    /// Parses a key from hexadecimal digits.
    pub(crate) fn parse(digits: &str) -> Option<Self> {
        if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }

    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(message, signature).is_ok()
    }
}

/// The content of the first block of this kind in a PEM file.
fn pem(path: &Path, kind: &str, expected: &str) -> Result<Vec<u8>, PackageError> {
    let length = std::fs::metadata(path).map_err(PackageError::reading(path))?.len();
    let wrong = || PackageError::Key { path: PathBuf::from(path), what: format!("is not {expected} in PEM") };
    if length > MAX_FILE {
        return Err(wrong());
    }
    let bytes = hearth_files::read(path).map_err(PackageError::reading(path))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong())?;
    let (begin, end) = (format!("-----BEGIN {kind}-----"), format!("-----END {kind}-----"));
    let block = text.split_once(&begin).and_then(|(_, rest)| rest.split_once(&end)).ok_or_else(wrong)?.0;
    let packed: String = block.chars().filter(|c| !c.is_whitespace()).collect();
    STANDARD.decode(packed).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_case_of_rfc_8032() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("key.pem");
        let text = "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g";
        std::fs::write(&path, format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n"))
            .expect("written");
        let signature = SigningKey::open(&path).expect("a key").sign(b"");
        let digits: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            digits,
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24\
             655141438e7a100b"
        );
    }
}
