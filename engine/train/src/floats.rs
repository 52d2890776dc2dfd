//! Numbers that ranks exchange as text: [`Floats`].

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Numbers with their exact bits: JSON has neither NaN nor infinity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Floats(pub Vec<f32>);

impl Serialize for Floats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|value| value.to_bits()))
    }
}

impl<'de> Deserialize<'de> for Floats {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bits = Vec::<u32>::deserialize(deserializer)?;
        Ok(Self(bits.into_iter().map(f32::from_bits).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_arrives_as_it_was() {
        let sent = [0.1, -0.0, f32::NAN, f32::INFINITY, f32::MIN_POSITIVE / 3.0];
        let text = serde_json::to_string(&Floats(sent.to_vec())).expect("text");
        let came: Floats = serde_json::from_str(&text).expect("numbers");
        assert_eq!(came.0.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), sent.map(f32::to_bits));
    }
}
