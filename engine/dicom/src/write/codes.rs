//! Codes of regions, from SNOMED CT and the terms of radiotherapy.

/// A coded concept: `("10200004", "SCT", "Liver")`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// CodeValue.
    pub value: String,
    /// CodingSchemeDesignator: `SCT` for SNOMED CT, `DCM`, `99LOCAL`.
    pub scheme: String,
    /// CodeMeaning.
    pub meaning: String,
}

impl Code {
    /// A concept of a coding scheme.
    pub fn new(value: impl Into<String>, scheme: impl Into<String>, meaning: impl Into<String>) -> Self {
        Code { value: value.into(), scheme: scheme.into(), meaning: meaning.into() }
    }

    /// The reason why the code cannot be written, if there is one.
    pub fn fault(&self) -> Option<String> {
        for (what, text, most) in
            [("value", &self.value, 16), ("scheme", &self.scheme, 16), ("meaning", &self.meaning, 64)]
        {
            let count = text.chars().count();
            if text.trim().is_empty() || count > most || text.contains('\\') || text.chars().any(char::is_control) {
                return Some(format!("the {what} {text:?}: expected 1 to {most} characters, without backslash"));
            }
        }
        None
    }
}

/// The category and the type of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coding {
    /// SegmentedPropertyCategoryCodeSequence: an anatomical structure, a tissue, ...
    pub category: Code,
    /// SegmentedPropertyTypeCodeSequence: a liver, a neoplasm, ...
    pub kind: Code,
    /// AnatomicRegionSequence: the site of a lesion.
    pub site: Option<Code>,
    /// SegmentedPropertyTypeModifierCodeSequence: left or right.
    pub side: Option<Code>,
}

impl Coding {
    /// A coding without a site and a side.
    pub fn new(category: Code, kind: Code) -> Self {
        Coding { category, kind, site: None, side: None }
    }

    /// All codes.
    pub fn codes(&self) -> impl Iterator<Item = &Code> {
        [&self.category, &self.kind].into_iter().chain(&self.site).chain(&self.side)
    }
}

/// A concept of SNOMED CT: its code and its meaning.
type Concept = (&'static str, &'static str);

const ABNORMAL: Concept = ("49755003", "Morphologically Abnormal Structure");
const ANATOMICAL: Concept = ("91723000", "Anatomical Structure");
const TISSUE: Concept = ("85756007", "Tissue");
const SUBSTANCE: Concept = ("91720002", "Body Substance");

const LEFT: Concept = ("7771000", "Left");
const RIGHT: Concept = ("24028007", "Right");

/// Lesions by the words of a name. The words of a phrase are separated by a space, phrases by a
/// comma.
const LESIONS: &[(&str, Concept)] = &[
    ("gtv, tumor, tumour, neoplasm, cancer, carcinoma, glioma", ("108369006", "Neoplasm")),
    ("metastasis, metastases", ("14799000", "Neoplasm, Secondary")),
    ("necrosis, necrotic", ("6574001", "Necrosis")),
    ("edema, oedema", ("79654002", "Edema")),
    ("hemorrhage, haemorrhage, bleeding", ("50960005", "Hemorrhage")),
    ("hematoma, haematoma", ("35566002", "Hematoma")),
    ("cyst", ("367643001", "Cyst")),
    ("thrombus", ("396339007", "Thrombus")),
    ("pleural effusion", ("60046008", "Pleural effusion")),
    ("effusion", ("41699000", "Effusion")),
    ("nodule", ("27925004", "Nodule")),
    ("mass", ("4147007", "Mass")),
    ("lesion", ("52988006", "Lesion")),
];

/// Anatomy by the words of a name, in any order; the first matching entry is used.
const ANATOMY: &[(&str, Concept)] = &[
    ("spinal cord, spinal", ("2748008", "Spinal cord")),
    ("spleen", ("78961009", "Spleen")),
    ("liver", ("10200004", "Liver")),
    ("gallbladder, gall bladder", ("28231008", "Gallbladder")),
    ("bladder", ("89837001", "Bladder")),
    ("adrenal", ("23451007", "Adrenal gland")),
    ("kidney", ("64033007", "Kidney")),
    ("lung upper lobe", ("45653009", "Upper lobe of lung")),
    ("lung middle lobe", ("72481006", "Middle lobe of right lung")),
    ("lung lower lobe", ("90572001", "Lower lobe of lung")),
    ("pancreas", ("15776009", "Pancreas")),
    ("stomach", ("69695003", "Stomach")),
    ("duodenum", ("38848004", "Duodenum")),
    ("small bowel, small intestine", ("30315005", "Small intestine")),
    ("large bowel, large intestine", ("14742008", "Large intestine")),
    ("colon", ("71854001", "Colon")),
    ("rectum", ("34402009", "Rectum")),
    ("esophagus, oesophagus", ("32849002", "Esophagus")),
    ("lung", ("39607008", "Lung")),
    ("pleura", ("3120008", "Pleura")),
    ("mediastinum", ("72410000", "Mediastinum")),
    ("trachea", ("44567001", "Trachea")),
    ("bronchus, bronchi", ("955009", "Bronchus")),
    ("thyroid", ("69748006", "Thyroid")),
    ("thymus", ("9875009", "Thymus")),
    ("lateral ventricle", ("66720007", "Lateral Ventricle")),
    ("left ventricle", ("87878005", "Left ventricle")),
    ("right ventricle", ("53085002", "Right ventricle")),
    ("left atrium", ("82471001", "Left atrium")),
    ("right atrium", ("73829009", "Right atrium")),
    ("heart", ("80891009", "Heart")),
    ("aorta", ("15825003", "Aorta")),
    ("inferior cava", ("64131007", "Inferior vena cava")),
    ("superior cava", ("48345005", "Superior vena cava")),
    ("portal vein", ("32764006", "Portal vein")),
    ("hepatic vein", ("8993003", "Hepatic vein")),
    ("pulmonary artery", ("81040000", "Pulmonary artery")),
    ("pulmonary vein", ("122972007", "Pulmonary vein")),
    ("carotid", ("69105007", "Carotid Artery")),
    ("iliac artery", ("10293006", "Iliac artery")),
    ("iliac vein, iliac vena", ("244411005", "Iliac vein")),
    ("prostate peripheral zone", ("279706003", "Peripheral zone of the prostate")),
    ("prostate transition zone", ("399384005", "Transition zone of the prostate")),
    ("prostate", ("41216001", "Prostate")),
    ("seminal vesicle", ("64739004", "Seminal Vesicle")),
    ("uterus", ("35039007", "Uterus")),
    ("ovary", ("15497006", "Ovary")),
    ("testis", ("40689003", "Testis")),
    ("breast", ("76752008", "Breast")),
    ("lymph node", ("59441001", "Lymph Node")),
    ("hippocampus", ("5366008", "Hippocampus")),
    ("cerebellum", ("113305005", "Cerebellum")),
    ("brainstem, brain stem", ("119238007", "Brain Stem")),
    ("thalamus", ("42695009", "Thalamus")),
    ("amygdala", ("4958002", "Amygdala")),
    ("putamen", ("89278009", "Putamen")),
    ("caudate nucleus", ("11000004", "Caudate Nucleus")),
    ("pituitary", ("56329008", "Pituitary")),
    ("optic chiasm", ("244453006", "Optic chiasm")),
    ("optic nerve", ("18234004", "optic nerve")),
    ("brain", ("12738006", "Brain")),
    ("eye", ("81745001", "Eye")),
    ("lens", ("78076003", "Lens")),
    ("parotid", ("45289007", "Parotid gland")),
    ("submandibular", ("54019009", "Submandibular gland")),
    ("mandible", ("91609006", "Mandible")),
    ("larynx", ("4596009", "Larynx")),
    ("tongue", ("21974007", "Tongue")),
    ("skull", ("89546000", "Skull")),
    ("vertebra, vertebrae", ("51282000", "Vertebra")),
    ("spine", ("421060004", "Spine")),
    ("rib", ("113197003", "Rib")),
    ("sternum", ("56873002", "Sternum")),
    ("sacrum", ("54735007", "Sacrum")),
    ("scapula", ("79601000", "Scapula")),
    ("clavicle, clavicula", ("51299004", "Clavicle")),
    ("humerus", ("85050009", "Humerus")),
    ("femur", ("71341001", "Femur")),
    ("tibia", ("12611008", "Tibia")),
    ("hip", ("29836001", "Hip")),
    ("skin", ("39937001", "Skin")),
    ("artery", ("51114001", "Artery")),
    ("vein", ("29092000", "Vein")),
];

/// Tissues and fluids, in the same format.
const TISSUES: &[(&str, Concept)] = &[
    ("bone", ("272673000", "Bone")),
    ("white matter", ("389080008", "White Matter")),
    ("gray matter, grey matter", ("389081007", "Gray Matter")),
    ("blood vessel, vessel", ("59820001", "Blood Vessel")),
    ("skeletal muscle", ("127954009", "Skeletal muscle")),
    ("muscle", ("71616004", "Muscle")),
    ("fat", ("55603005", "Fat")),
];
const SUBSTANCES: &[(&str, Concept)] = &[("cerebrospinal fluid, csf", ("65216001", "Cerebrospinal Fluid"))];

fn sct((value, meaning): Concept) -> Code {
    Code::new(value, "SCT", meaning)
}

/// The first concept of a table whose words occur in a text.
fn in_table(table: &[(&str, Concept)], text: &str) -> Option<Code> {
    let words = words(text);
    let has = |word: &str| words.iter().any(|own| own == word || own.strip_suffix('s') == Some(word));
    let fits = |phrases: &str| phrases.split(", ").any(|phrase| phrase.split(' ').all(has));
    table.iter().find(|(phrases, _)| fits(phrases)).map(|(_, concept)| sct(*concept))
}

/// The coding of a name: a lesion, an organ or a tissue; `None` if its words are unknown.
fn named(text: &str) -> Option<Coding> {
    if let Some(kind) = in_table(LESIONS, text) {
        return Some(Coding { site: in_table(ANATOMY, text), ..Coding::new(sct(ABNORMAL), kind) });
    }
    let tables = [(ANATOMY, ANATOMICAL), (TISSUES, TISSUE), (SUBSTANCES, SUBSTANCE)];
    let mut found = tables.into_iter().filter_map(|(table, category)| Some((category, in_table(table, text)?)));
    found.next().map(|(category, kind)| Coding::new(sct(category), kind))
}

/// The coding of a region by its name; `None` if its words are unknown. The site of a lesion is the
/// organ in the name. A side in the name is added, unless the meaning includes it.
/// name has as its site; whatever has a side has it, unless the meaning does.
pub fn known_coding(name: &str) -> Option<Coding> {
    let mut found = named(name)?;
    found.side = side(name, &found.kind.meaning);
    Some(found)
}

/// The side in a name, unless the meaning includes it: `kidney_left`, `R lung`, but not
/// `vertebrae_L1`.
fn side(name: &str, meaning: &str) -> Option<Code> {
    let has = |of: &str, side: &str| {
        let mut words = of.split(|c: char| !c.is_alphanumeric());
        words.any(|word| word.eq_ignore_ascii_case(side) || word.eq_ignore_ascii_case(&side[..1]))
    };
    let found = [LEFT, RIGHT].into_iter().find(|(_, side)| has(name, side));
    found.filter(|(_, side)| !has(meaning, side)).map(sct)
}

/// The category and type of a region by its property or its name; a tissue if both are unknown.
pub fn coding(property: Option<&str>, name: &str) -> Coding {
    let found = property.and_then(named).or_else(|| named(name));
    let mut found = found.unwrap_or_else(|| Coding::new(sct(TISSUE), sct(TISSUE)));
    if let Coding { site: site @ None, kind, .. } = &mut found {
        *site = in_table(ANATOMY, name).filter(|there| there != kind);
    }
    found.side = side(name, &found.kind.meaning);
    found
}

/// All concepts of the table of defaults, as code and meaning.
pub fn known_codes() -> Vec<Code> {
    let tables = [LESIONS, ANATOMY, TISSUES, SUBSTANCES].into_iter().flatten();
    let categories = [ABNORMAL, ANATOMICAL, TISSUE, SUBSTANCE, LEFT, RIGHT].map(sct);
    categories.into_iter().chain(tables.map(|(_, concept)| sct(*concept))).collect()
}

/// RTROIInterpretedType's terms for regions of a patient.
const INTERPRETED: [&str; 9] = ["GTV", "CTV", "PTV", "ITV", "ORGAN", "EXTERNAL", "AVOIDANCE", "CAVITY", "SUPPORT"];

/// RTROIInterpretedType; empty if unknown.
pub(crate) fn interpreted(property: Option<&str>, name: &str) -> &'static str {
    let term = |text: &str| INTERPRETED.into_iter().find(|term| text.eq_ignore_ascii_case(term));
    if let Some(term) = property.and_then(term) {
        return term;
    }
    let first = words(name).into_iter().next().unwrap_or_default();
    match (term(&first), coding(property, name).category.value.as_str()) {
        (Some(term), _) => term,
        (None, value) if value == ANATOMICAL.0 => "ORGAN",
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
            ("heart_atrium_left", "Left atrium", "ORGAN"),
            ("vertebrae_L1", "Vertebra", "ORGAN"),
            ("urinary_bladder", "Bladder", "ORGAN"),
            ("kidney_cyst_left", "Cyst", ""),
            ("PTV_60", "Tissue", "PTV"),
            ("thing", "Tissue", ""),
            ("lung_upper_lobe_right", "Upper lobe of lung", "ORGAN"),
            ("white matter", "White Matter", ""),
        ] {
            assert_eq!((coding(None, name).kind.meaning.as_str(), interpreted(None, name)), (meaning, term), "{name}");
        }
        assert_eq!(interpreted(Some("organ"), "thing"), "ORGAN");
        let side = |name: &str| coding(None, name).side.map(|side| side.meaning);
        assert_eq!(side("Kidney_Left").as_deref(), Some("Left"));
        assert_eq!(side("kidney tumour, right").as_deref(), Some("Right"));
        assert_eq!([side("heart_ventricle_left"), side("liver"), side("vertebrae_L1")], [None, None, None]);
        assert_eq!(known_coding("thing"), None);
        assert_eq!(coding(None, "liver tumours").site, Some(Code::new("10200004", "SCT", "Liver")));
        let in_lung = coding(Some("Neoplasm"), "lung");
        assert_eq!(
            (in_lung.kind.meaning.as_str(), in_lung.site.expect("a site").meaning.as_str()),
            ("Neoplasm", "Lung")
        );
    }
}
