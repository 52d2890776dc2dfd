//! Philips TIFF, the format of CAMELYON16: levels are padded to whole tiles, and the description
//! (XML) contains each level's pixel spacing, which determines the size of its image part.

use roxmltree::{Document, Node, ParsingOptions};

use super::generic;
use super::layout::{Layout, LevelPage};
use crate::tiff::Page;

pub(super) fn is(pages: &[Page]) -> bool {
    let software = pages[0].texts.software.as_deref().unwrap_or_default();
    pages[0].segments.tiled && (software.starts_with("Philips") || pages[0].description().contains("DPUfsImport"))
}

pub(super) fn layout(pages: &[Page]) -> Layout {
    let mut layout = Layout { vendor: "philips", ..Layout::default() };
    let main = &pages[0];
    let options = ParsingOptions { nodes_limit: 1 << 20, ..ParsingOptions::default() };
    // Without its XML the file is a generic pyramid with inexact downsampling.
    let spacings =
        Document::parse_with_options(main.description(), options).map_or_else(|_| Vec::new(), |xml| spacings(&xml));
    layout.mpp = spacings.first().map(|[row, column]| [column * 1e3, row * 1e3]);
    let tiled = pages.iter().filter(|page| page.segments.tiled && generic::associated_name(page).is_none());
    for (i, page) in tiled.enumerate() {
        let mut level = LevelPage::whole(page);
        if let (Some([row, column]), Some([row_0, column_0])) = (spacings.get(i), spacings.first()) {
            let part = |whole: usize, factor: f64, page: usize| ((whole as f64 / factor) as usize).clamp(1, page);
            level.width = part(main.width, column / column_0, page.width);
            level.height = part(main.height, row / row_0, page.height);
        }
        layout.levels.push(level);
    }
    for page in pages {
        if let Some(name) = generic::associated_name(page) {
            layout.associated.insert(name.to_owned(), page.number);
        }
    }
    layout
}

/// Row and column spacing in mm of each level, from the largest.
fn spacings(xml: &Document) -> Vec<[f64; 2]> {
    let mut found: Vec<(u32, [f64; 2])> = xml
        .descendants()
        .filter(|node| node.attribute("ObjectType") == Some("PixelDataRepresentation"))
        .filter_map(|level| {
            let number = attribute(level, "PIIM_PIXEL_DATA_REPRESENTATION_NUMBER")?.trim().parse().ok()?;
            let text = attribute(level, "DICOM_PIXEL_SPACING")?.replace('"', " ");
            let mut values = text.split_whitespace().map(str::parse::<f64>);
            let (row, column) = (values.next()?.ok()?, values.next()?.ok()?);
            (row > 0.0 && column > 0.0 && row.is_finite() && column.is_finite()).then_some((number, [row, column]))
        })
        .collect();
    found.sort_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, spacing)| spacing).collect()
}

fn attribute<'a>(object: Node<'a, '_>, name: &str) -> Option<&'a str> {
    object.children().find(|child| child.attribute("Name") == Some(name))?.text()
}
