//! What a region is, in the codes of SNOMED CT and the terms of radiotherapy.

/// A coded concept of SNOMED CT: its code and its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coded(pub &'static str, pub &'static str);

const ABNORMAL: Coded = Coded("49755003", "Morphologically Abnormal Structure");
const ANATOMICAL: Coded = Coded("91723000", "Anatomical Structure");
const TISSUE: Coded = Coded("85756007", "Tissue");

/// Words of a name, and what they mean. The first that a name has decides, so tumours of an organ
/// come before organs.
const WORDS: &[(&[&str], Coded, Coded)] = &[
    (&["gtv", "tumor", "tumour", "neoplasm", "cancer"], ABNORMAL, Coded("108369006", "Neoplasm")),
    (&["metastasis", "metastases"], ABNORMAL, Coded("14799000", "Neoplasm, Secondary")),
    (&["lesion", "nodule"], ABNORMAL, Coded("52988006", "Lesion")),
    (&["edema", "oedema"], ABNORMAL, Coded("79654002", "Edema")),
    (&["spleen"], ANATOMICAL, Coded("78961009", "Spleen")),
    (&["liver"], ANATOMICAL, Coded("10200004", "Liver")),
    (&["lung", "lungs"], ANATOMICAL, Coded("39607008", "Lung")),
    (&["heart"], ANATOMICAL, Coded("80891009", "Heart")),
    (&["kidney", "kidneys"], ANATOMICAL, Coded("64033007", "Kidney")),
    (&["pancreas"], ANATOMICAL, Coded("15776009", "Pancreas")),
    (&["esophagus", "oesophagus"], ANATOMICAL, Coded("32849002", "Esophagus")),
    (&["spinal"], ANATOMICAL, Coded("2748008", "Spinal cord")),
    (&["prostate"], ANATOMICAL, Coded("41216001", "Prostate")),
    (&["hippocampus"], ANATOMICAL, Coded("14418008", "Hippocampus")),
    (&["brain"], ANATOMICAL, Coded("12738006", "Brain")),
    (&["aorta"], ANATOMICAL, Coded("15825003", "Aorta")),
];

/// RTROIInterpretedType's terms for regions of a patient.
const INTERPRETED: [&str; 9] = ["GTV", "CTV", "PTV", "ITV", "ORGAN", "EXTERNAL", "AVOIDANCE", "CAVITY", "SUPPORT"];

/// Category and type of a region by its property or its name; a tissue where the words say nothing.
pub(crate) fn coded(property: Option<&str>, name: &str) -> (Coded, Coded) {
    let of = |text: &str| {
        let words = words(text);
        WORDS.iter().find(|(known, ..)| known.iter().any(|k| words.iter().any(|w| w == k)))
    };
    let found = property.and_then(of).or_else(|| of(name));
    found.map_or((TISSUE, TISSUE), |(_, category, kind)| (*category, *kind))
}

/// RTROIInterpretedType; empty where it is not known.
pub(crate) fn interpreted(property: Option<&str>, name: &str) -> &'static str {
    let term = |text: &str| INTERPRETED.into_iter().find(|term| text.eq_ignore_ascii_case(term));
    if let Some(term) = property.and_then(term) {
        return term;
    }
    let first = words(name).into_iter().next().unwrap_or_default();
    match (term(&first), coded(property, name).0) {
        (Some(term), _) => term,
        (None, ANATOMICAL) => "ORGAN",
        (None, _) => "",
    }
}

fn words(text: &str) -> Vec<String> {
    let split = text.split(|c: char| !c.is_alphabetic());
    split.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_region_is() {
        for (name, meaning, term) in [
            ("GTV-1", "Neoplasm", "GTV"),
            ("spleen", "Spleen", "ORGAN"),
            ("Lung-Left", "Lung", "ORGAN"),
            ("lung tumour", "Neoplasm", ""),
            ("PTV_60", "Tissue", "PTV"),
            ("thing", "Tissue", ""),
        ] {
            assert_eq!((coded(None, name).1.1, interpreted(None, name)), (meaning, term), "{name}");
        }
        assert_eq!(interpreted(Some("organ"), "thing"), "ORGAN");
        assert_eq!(coded(Some("Neoplasm"), "lung").1.1, "Neoplasm");
    }
}
