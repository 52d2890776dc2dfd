//! The roles of a slide's pages: levels of its pyramid, label, macro image, thumbnail.

use std::collections::BTreeMap;

use super::{aperio, generic, ome, philips};
use crate::error::Fault;
use crate::tiff::Page;

/// The roles of a slide's pages.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub vendor: &'static str,
    /// The levels, from the largest to the smallest.
    pub levels: Vec<LevelPage>,
    /// Associated pages by name.
    pub associated: BTreeMap<String, usize>,
    pub mpp: Option<[f64; 2]>,
    pub power: Option<f64>,
    pub properties: BTreeMap<String, String>,
}

/// A page of a level, and the size of its image part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LevelPage {
    pub page: usize,
    pub width: usize,
    pub height: usize,
}

impl LevelPage {
    pub fn whole(page: &Page) -> Self {
        LevelPage { page: page.number, width: page.width, height: page.height }
    }
}

/// Finds the vendor from the pages' descriptions.
pub(crate) fn find(pages: &[Page]) -> Result<Layout, Fault> {
    if let Some(vendor) = pages.first().and_then(unread_vendor) {
        return Err(Fault::unsupported(format!(
            "a slide of {vendor}, which this build does not read; build with the feature `openslide` to read it through OpenSlide"
        )));
    }
    let mut layout = if aperio::is(pages) {
        aperio::layout(pages)
    } else if philips::is(pages) {
        philips::layout(pages)
    } else if ome::is(pages) {
        ome::layout(pages)?
    } else {
        generic::layout(pages)
    };
    let first = layout.levels.first().map(|level| &pages[level.page]);
    let first = first.ok_or_else(|| Fault::unsupported("no page of the file is an image of a slide"))?;
    // A slide with unreadable pixels is not opened.
    first.format().map_err(|fault| fault.within(|| format!("page {}", first.number)))?;
    if layout.mpp.is_none() {
        layout.mpp = first.mpp();
    }
    tiff_properties(first, &mut layout.properties);
    Ok(layout)
}

/// TIFFs of vendors with nonstandard pages: tiles overlap, or lie elsewhere than the tags state.
fn unread_vendor(page: &Page) -> Option<&'static str> {
    let software = page.texts.software.as_deref().unwrap_or_default();
    let xmp = page.texts.xmp.as_deref().unwrap_or_default();
    if page.is_ndpi {
        Some("Hamamatsu (NDPI)")
    } else if xmp.contains("iScan") {
        Some("Ventana")
    } else if page.description().contains("leica-microsystems.com/scn") {
        Some("Leica (SCN)")
    } else if software.starts_with("MedScan") {
        Some("Trestle")
    } else {
        None
    }
}

fn tiff_properties(page: &Page, properties: &mut BTreeMap<String, String>) {
    let texts = &page.texts;
    let unit = match page.resolution_unit {
        2 => Some("inch".to_owned()),
        3 => Some("centimeter".to_owned()),
        _ => None,
    };
    let [x, y] = page.resolution.map(|r| r.map(|r| r.to_string()));
    let all = [
        ("ImageDescription", texts.description.clone()),
        ("Make", texts.make.clone()),
        ("Model", texts.model.clone()),
        ("Software", texts.software.clone()),
        ("DateTime", texts.date_time.clone()),
        ("Artist", texts.artist.clone()),
        ("XResolution", x),
        ("YResolution", y),
        ("ResolutionUnit", unit),
    ];
    for (name, value) in all {
        if let Some(value) = value {
            properties.insert(format!("tiff.{name}"), value);
        }
    }
}
