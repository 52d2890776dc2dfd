//! What labels are, in the codes that DICOM segmentations and reports have: [`Terms`].

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::PackageError;

/// A coded concept.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Code {
    /// CodingSchemeDesignator: `SCT` is SNOMED CT.
    #[serde(default = "snomed")]
    pub scheme: String,
    /// CodeValue.
    pub value: String,
    /// CodeMeaning.
    pub meaning: String,
}

fn snomed() -> String {
    "SCT".to_owned()
}

impl Code {
    /// A concept of SNOMED CT.
    pub fn snomed(value: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self { scheme: snomed(), value: value.into(), meaning: meaning.into() }
    }

    /// What DICOM does not allow: an attribute that is empty or too long.
    fn fault(&self) -> Option<String> {
        for (what, text, most) in
            [("scheme", &self.scheme, 16), ("value", &self.value, 16), ("meaning", &self.meaning, 64)]
        {
            let count = text.chars().count();
            if text.trim().is_empty() || count > most || text.contains(['\\', '\n', '\r']) {
                return Some(format!("{what} = {text:?}: expected 1 to {most} characters in one line, without \\"));
            }
        }
        None
    }
}

/// What a label is, as a segment of DICOM SEG says it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// SegmentedPropertyCategoryCodeSequence: an anatomical structure, an abnormal one, a tissue.
    pub category: Code,
    /// SegmentedPropertyTypeCodeSequence.
    #[serde(rename = "type")]
    pub kind: Code,
    /// SegmentedPropertyTypeModifierCodeSequence: its side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modifier: Option<Code>,
    /// AnatomicRegionSequence: the organ in which an abnormal structure lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Code>,
}

/// Words of a name, the category, the type.
type Row = (&'static str, (&'static str, &'static str), (&'static str, &'static str));

const ABNORMAL: (&str, &str) = ("49755003", "Morphologically Abnormal Structure");
const ANATOMICAL: (&str, &str) = ("91723000", "Anatomical Structure");
const TISSUE: (&str, &str) = ("85756007", "Tissue");
const SUBSTANCE: (&str, &str) = ("91720002", "Body Substance");
const LEFT: (&str, &str) = ("7771000", "Left");
const RIGHT: (&str, &str) = ("24028007", "Right");

/// Structures that may be anywhere: what follows the organ in a name, as in `liver tumor`.
const FINDINGS: &[Row] = &[
    ("metastasis", ABNORMAL, ("14799000", "Neoplasm, Secondary")),
    ("metastases", ABNORMAL, ("14799000", "Neoplasm, Secondary")),
    ("tumor", ABNORMAL, ("108369006", "Neoplasm")),
    ("tumour", ABNORMAL, ("108369006", "Neoplasm")),
    ("neoplasm", ABNORMAL, ("108369006", "Neoplasm")),
    ("cancer", ABNORMAL, ("108369006", "Neoplasm")),
    ("gtv", ABNORMAL, ("108369006", "Neoplasm")),
    ("nodule", ABNORMAL, ("27925004", "Nodule")),
    ("lesion", ABNORMAL, ("52988006", "Lesion")),
    ("cyst", ABNORMAL, ("367643001", "Cyst")),
    ("edema", ABNORMAL, ("79654002", "Edema")),
    ("oedema", ABNORMAL, ("79654002", "Edema")),
    ("necrosis", ABNORMAL, ("6574001", "Necrosis")),
    ("hemorrhage", ABNORMAL, ("50960005", "Hemorrhage")),
    ("haemorrhage", ABNORMAL, ("50960005", "Hemorrhage")),
    ("effusion", ABNORMAL, ("41699000", "Effusion")),
    ("thrombus", ABNORMAL, ("396339007", "Thrombus")),
    ("vessel", TISSUE, ("59820001", "Blood Vessel")),
    ("vessels", TISSUE, ("59820001", "Blood Vessel")),
];

/// Organs and tissues by names: all words must be in that of a label. Longer names come first.
const ORGANS: &[Row] = &[
    ("lung upper lobe", ANATOMICAL, ("45653009", "Upper lobe of lung")),
    ("lung middle lobe", ANATOMICAL, ("72481006", "Middle lobe of right lung")),
    ("lung lower lobe", ANATOMICAL, ("90572001", "Lower lobe of lung")),
    ("inferior vena cava", ANATOMICAL, ("64131007", "Inferior vena cava")),
    ("superior vena cava", ANATOMICAL, ("48345005", "Superior vena cava")),
    ("heart ventricle left", ANATOMICAL, ("87878005", "Left ventricle")),
    ("heart ventricle right", ANATOMICAL, ("53085002", "Right ventricle")),
    ("heart atrium left", ANATOMICAL, ("82471001", "Left atrium")),
    ("heart atrium right", ANATOMICAL, ("73829009", "Right atrium")),
    ("left ventricle", ANATOMICAL, ("87878005", "Left ventricle")),
    ("right ventricle", ANATOMICAL, ("53085002", "Right ventricle")),
    ("left atrium", ANATOMICAL, ("82471001", "Left atrium")),
    ("right atrium", ANATOMICAL, ("73829009", "Right atrium")),
    ("lateral ventricle", ANATOMICAL, ("66720007", "Lateral Ventricle")),
    ("prostate peripheral zone", ANATOMICAL, ("279706003", "Peripheral zone of the prostate")),
    ("prostate transition zone", ANATOMICAL, ("399384005", "Transition zone of the prostate")),
    ("adrenal gland", ANATOMICAL, ("23451007", "Adrenal gland")),
    ("urinary bladder", ANATOMICAL, ("89837001", "Bladder")),
    ("small intestine", ANATOMICAL, ("30315005", "Small intestine")),
    ("small bowel", ANATOMICAL, ("30315005", "Small intestine")),
    ("large intestine", ANATOMICAL, ("14742008", "Large intestine")),
    ("portal vein", ANATOMICAL, ("32764006", "Portal vein")),
    ("pulmonary artery", ANATOMICAL, ("81040000", "Pulmonary artery")),
    ("pulmonary vein", ANATOMICAL, ("122972007", "Pulmonary vein")),
    ("seminal vesicle", ANATOMICAL, ("64739004", "Seminal Vesicle")),
    ("spinal cord", ANATOMICAL, ("2748008", "Spinal cord")),
    ("brain stem", ANATOMICAL, ("119238007", "Brain Stem")),
    ("optic nerve", ANATOMICAL, ("18234004", "optic nerve")),
    ("optic chiasm", ANATOMICAL, ("244453006", "Optic chiasm")),
    ("parotid gland", ANATOMICAL, ("45289007", "Parotid gland")),
    ("submandibular gland", ANATOMICAL, ("54019009", "Submandibular gland")),
    ("caudate nucleus", ANATOMICAL, ("11000004", "Caudate Nucleus")),
    ("lymph node", ANATOMICAL, ("59441001", "Lymph Node")),
    ("lymph nodes", ANATOMICAL, ("59441001", "Lymph Node")),
    ("white matter", TISSUE, ("389080008", "White Matter")),
    ("gray matter", TISSUE, ("389081007", "Gray Matter")),
    ("grey matter", TISSUE, ("389081007", "Gray Matter")),
    ("cerebrospinal fluid", SUBSTANCE, ("65216001", "Cerebrospinal Fluid")),
    ("blood vessel", TISSUE, ("59820001", "Blood Vessel")),
    ("skeletal muscle", TISSUE, ("127954009", "Skeletal muscle")),
    ("spleen", ANATOMICAL, ("78961009", "Spleen")),
    ("liver", ANATOMICAL, ("10200004", "Liver")),
    ("kidney", ANATOMICAL, ("64033007", "Kidney")),
    ("kidneys", ANATOMICAL, ("64033007", "Kidney")),
    ("pancreas", ANATOMICAL, ("15776009", "Pancreas")),
    ("gallbladder", ANATOMICAL, ("28231008", "Gallbladder")),
    ("stomach", ANATOMICAL, ("69695003", "Stomach")),
    ("duodenum", ANATOMICAL, ("38848004", "Duodenum")),
    ("colon", ANATOMICAL, ("71854001", "Colon")),
    ("rectum", ANATOMICAL, ("34402009", "Rectum")),
    ("esophagus", ANATOMICAL, ("32849002", "Esophagus")),
    ("oesophagus", ANATOMICAL, ("32849002", "Esophagus")),
    ("bladder", ANATOMICAL, ("89837001", "Bladder")),
    ("prostate", ANATOMICAL, ("41216001", "Prostate")),
    ("uterus", ANATOMICAL, ("35039007", "Uterus")),
    ("ovary", ANATOMICAL, ("15497006", "Ovary")),
    ("testis", ANATOMICAL, ("40689003", "Testis")),
    ("lung", ANATOMICAL, ("39607008", "Lung")),
    ("lungs", ANATOMICAL, ("39607008", "Lung")),
    ("trachea", ANATOMICAL, ("44567001", "Trachea")),
    ("bronchus", ANATOMICAL, ("955009", "Bronchus")),
    ("mediastinum", ANATOMICAL, ("72410000", "Mediastinum")),
    ("pleura", ANATOMICAL, ("3120008", "Pleura")),
    ("heart", ANATOMICAL, ("80891009", "Heart")),
    ("aorta", ANATOMICAL, ("15825003", "Aorta")),
    ("brain", ANATOMICAL, ("12738006", "Brain")),
    ("brainstem", ANATOMICAL, ("119238007", "Brain Stem")),
    ("cerebellum", ANATOMICAL, ("113305005", "Cerebellum")),
    ("hippocampus", ANATOMICAL, ("5366008", "Hippocampus")),
    ("thalamus", ANATOMICAL, ("42695009", "Thalamus")),
    ("amygdala", ANATOMICAL, ("4958002", "Amygdala")),
    ("putamen", ANATOMICAL, ("89278009", "Putamen")),
    ("larynx", ANATOMICAL, ("4596009", "Larynx")),
    ("tongue", ANATOMICAL, ("21974007", "Tongue")),
    ("eye", ANATOMICAL, ("81745001", "Eye")),
    ("lens", ANATOMICAL, ("78076003", "Lens")),
    ("breast", ANATOMICAL, ("76752008", "Breast")),
    ("thymus", ANATOMICAL, ("9875009", "Thymus")),
    ("skull", ANATOMICAL, ("89546000", "Skull")),
    ("mandible", ANATOMICAL, ("91609006", "Mandible")),
    ("vertebra", ANATOMICAL, ("51282000", "Vertebra")),
    ("vertebrae", ANATOMICAL, ("51282000", "Vertebra")),
    ("spine", ANATOMICAL, ("421060004", "Spine")),
    ("rib", ANATOMICAL, ("113197003", "Rib")),
    ("ribs", ANATOMICAL, ("113197003", "Rib")),
    ("sternum", ANATOMICAL, ("56873002", "Sternum")),
    ("scapula", ANATOMICAL, ("79601000", "Scapula")),
    ("clavicle", ANATOMICAL, ("51299004", "Clavicle")),
    ("clavicula", ANATOMICAL, ("51299004", "Clavicle")),
    ("humerus", ANATOMICAL, ("85050009", "Humerus")),
    ("femur", ANATOMICAL, ("71341001", "Femur")),
    ("tibia", ANATOMICAL, ("12611008", "Tibia")),
    ("sacrum", ANATOMICAL, ("54735007", "Sacrum")),
    ("hip", ANATOMICAL, ("29836001", "Hip")),
    ("bone", TISSUE, ("272673000", "Bone")),
    ("bones", TISSUE, ("272673000", "Bone")),
    ("muscle", TISSUE, ("71616004", "Muscle")),
    ("fat", TISSUE, ("55603005", "Fat")),
    ("skin", ANATOMICAL, ("39937001", "Skin")),
    ("artery", ANATOMICAL, ("51114001", "Artery")),
    ("vein", ANATOMICAL, ("29092000", "Vein")),
];

/// Terms of labels by their names: a table of the user, then the built-in one of common organs and
/// findings (codes of SNOMED CT as DICOM's context groups have them).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    own: BTreeMap<String, Term>,
}

impl Terms {
    /// A table in TOML, which goes before the built-in one. `scheme` is `SCT` by default:
    ///
    /// ```toml
    /// ["left kidney tumour"]
    /// category = { value = "49755003", meaning = "Morphologically Abnormal Structure" }
    /// type = { value = "108369006", meaning = "Neoplasm" }
    /// region = { value = "64033007", meaning = "Kidney" }
    /// modifier = { value = "7771000", meaning = "Left" }
    /// ```
    ///
    /// # Errors
    /// A file that cannot be read; text that is no such table; codes that DICOM does not allow.
    pub fn open(path: &Path) -> Result<Self, PackageError> {
        let text = std::fs::read_to_string(path).map_err(PackageError::reading(path))?;
        Self::parse(&text).map_err(|what| PackageError::Terms { path: path.to_owned(), what })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let read: BTreeMap<String, Term> = toml::from_str(text).map_err(|error| format!("cannot be read: {error}"))?;
        for (name, term) in &read {
            let codes = [("category", Some(&term.category)), ("type", Some(&term.kind))];
            let codes =
                codes.into_iter().chain([("modifier", term.modifier.as_ref()), ("region", term.region.as_ref())]);
            for (key, code) in codes {
                if let Some(fault) = code.and_then(Code::fault) {
                    return Err(format!("has at {name:?}, {key}: {fault}"));
                }
            }
        }
        Ok(Self { own: read.into_iter().map(|(name, term)| (words(&name).join(" "), term)).collect() })
    }

    /// The names of the user's table that are none of these labels.
    pub fn unused<'a>(&'a self, labels: &[&str]) -> Vec<&'a str> {
        let labels: Vec<String> = labels.iter().map(|label| words(label).join(" ")).collect();
        self.own.keys().filter(|name| !labels.contains(name)).map(String::as_str).collect()
    }

    /// What a label is: by the user's table, whatever the case and the marks between words; else by
    /// the words of its name. `liver_tumour` is a neoplasm in the liver, `kidney_left` a kidney on
    /// the left.
    pub fn find(&self, label: &str) -> Option<Term> {
        let words = words(label);
        if let Some(own) = self.own.get(&words.join(" ")) {
            return Some(own.clone());
        }
        let has = |name: &str| name.split(' ').all(|word| words.iter().any(|known| known == word));
        let code = |(value, meaning): (&str, &str)| Code::snomed(value, meaning);
        let organ = ORGANS.iter().find(|(name, ..)| has(name));
        let side = [("left", LEFT), ("l", LEFT), ("right", RIGHT), ("r", RIGHT)];
        let side = side.into_iter().find(|(word, _)| has(word)).map(|(_, side)| side);
        // The meaning has the side already.
        let with_side =
            |meaning: &str| side.filter(|(_, word)| !meaning.contains(word) && !meaning.contains(&word.to_lowercase()));
        if let Some((_, category, kind)) = FINDINGS.iter().find(|(name, ..)| has(name)) {
            let region = organ.map(|(.., region)| code(*region));
            let modifier = side.map(code);
            return Some(Term { category: code(*category), kind: code(*kind), modifier, region });
        }
        let (_, category, kind) = organ?;
        let modifier = with_side(kind.1).map(code);
        Some(Term { category: code(*category), kind: code(*kind), modifier, region: None })
    }
}

/// The words of a name in small letters; digits and marks are between words.
fn words(name: &str) -> Vec<String> {
    let split = name.split(|c: char| !c.is_alphanumeric());
    split.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_labels_say_what_they_are() {
        let terms = Terms::default();
        for (name, kind, region, modifier) in [
            ("spleen", "78961009", None, None),
            ("Kidney_Left", "64033007", None, Some("7771000")),
            ("lung_upper_lobe_right", "45653009", None, Some("24028007")),
            ("liver tumour", "108369006", Some("10200004"), None),
            ("heart_ventricle_left", "87878005", None, None),
            ("GTV-1", "108369006", None, None),
            ("renal-vein", "29092000", None, None),
            ("gallbladder", "28231008", None, None),
            ("Pleural effusion", "41699000", None, None),
        ] {
            let found = terms.find(name).unwrap_or_else(|| panic!("{name} is known"));
            assert_eq!(found.kind.value, kind, "{name}");
            assert_eq!(found.region.as_ref().map(|code| code.value.as_str()), region, "{name}");
            assert_eq!(found.modifier.as_ref().map(|code| code.value.as_str()), modifier, "{name}");
        }
        for unknown in ["background", "thing", "class 1", ""] {
            assert_eq!(terms.find(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_table_of_the_user_goes_first() {
        let text = "[\"My Spleen\"]\ncategory = { value = \"1\", meaning = \"c\" }\n\
                    type = { scheme = \"99MINE\", value = \"2\", meaning = \"t\" }\n";
        let terms = Terms::parse(text).expect("a table");
        let found = terms.find("my_spleen").expect("found");
        assert_eq!((found.kind.scheme.as_str(), found.category.scheme.as_str()), ("99MINE", "SCT"));
        assert_eq!(terms.find("spleen").map(|term| term.kind.value), Some("78961009".to_owned()));
        assert_eq!(terms.unused(&["spleen"]), ["my spleen"]);
        for (text, said) in [
            ("x = 3", "cannot be read"),
            ("[x]\ntype = { value = \"2\", meaning = \"t\" }", "category"),
            ("[x]\ncategory = { value = \"\", meaning = \"c\" }\ntype = { value = \"2\", meaning = \"t\" }", "1 to 16"),
        ] {
            let error = Terms::parse(text).expect_err("refused");
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn every_code_of_the_table_is_one_that_dicom_takes() {
        for (name, category, kind) in ORGANS.iter().chain(FINDINGS) {
            for (value, meaning) in [category, kind] {
                assert_eq!(Code::snomed(*value, *meaning).fault(), None, "{name}");
                assert!(value.bytes().all(|byte| byte.is_ascii_digit()) && check_digit(value), "{name}: {value}");
            }
        }
    }

    /// The last digit of an identifier of SNOMED CT is Verhoeff's check digit.
    fn check_digit(code: &str) -> bool {
        const TIMES: [[u8; 10]; 10] = [
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
            [1, 2, 3, 4, 0, 6, 7, 8, 9, 5],
            [2, 3, 4, 0, 1, 7, 8, 9, 5, 6],
            [3, 4, 0, 1, 2, 8, 9, 5, 6, 7],
            [4, 0, 1, 2, 3, 9, 5, 6, 7, 8],
            [5, 9, 8, 7, 6, 0, 4, 3, 2, 1],
            [6, 5, 9, 8, 7, 1, 0, 4, 3, 2],
            [7, 6, 5, 9, 8, 2, 1, 0, 4, 3],
            [8, 7, 6, 5, 9, 3, 2, 1, 0, 4],
            [9, 8, 7, 6, 5, 4, 3, 2, 1, 0],
        ];
        const MOVED: [u8; 10] = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4];
        let moved = |digit: u8, times: usize| (0..times % 8).fold(digit, |digit, _| MOVED[digit as usize]);
        let digits = code.bytes().rev().enumerate();
        digits.fold(0, |sum, (place, byte)| TIMES[sum as usize][moved(byte - b'0', place) as usize]) == 0
    }
}
