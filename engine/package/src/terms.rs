//! What labels are, in the codes that DICOM segmentations and reports have: [`Term`].

use serde::{Deserialize, Serialize};

/// A coded concept.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Code {
    /// CodingSchemeDesignator: `SCT` is SNOMED CT.
    pub scheme: String,
    /// CodeValue.
    pub value: String,
    /// CodeMeaning.
    pub meaning: String,
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
    /// AnatomicRegionSequence: the organ in which a lesion lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<Code>,
    /// SegmentedPropertyTypeModifierCodeSequence: left or right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Code>,
}
