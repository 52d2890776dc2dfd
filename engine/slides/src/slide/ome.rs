//! OME-TIFF: the description of the first page is XML. The first image is the slide (its first
//! plane); its smaller versions are nested in it.

use roxmltree::{Document, Node, ParsingOptions};

use super::generic;
use super::layout::Layout;
use crate::error::Fault;
use crate::tiff::Page;

pub(super) fn is(pages: &[Page]) -> bool {
    let text = pages[0].description().trim_start();
    (text.starts_with("<?xml") || text.starts_with("<OME")) && text.contains("openmicroscopy.org")
}

pub(super) fn layout(pages: &[Page]) -> Result<Layout, Fault> {
    let options = ParsingOptions { nodes_limit: 1 << 20, ..ParsingOptions::default() };
    let xml = Document::parse_with_options(pages[0].description(), options)
        .map_err(|error| Fault::damaged(format!("OME-XML: {error}")))?;
    let images: Vec<Node> = children(xml.root_element(), "Image").collect();
    let pixels = images.first().and_then(|image| children(*image, "Pixels").next());
    let pixels = pixels.ok_or_else(|| Fault::damaged("OME-XML without an image"))?;
    let top: Vec<&Page> = pages.iter().filter(|page| page.parent.is_none()).collect();
    let ifd = |image: Node| {
        let data = children(children(image, "Pixels").next()?, "TiffData").next()?;
        data.attribute("IFD").unwrap_or("0").parse::<usize>().ok()
    };
    let main = top
        .get(ifd(images[0]).unwrap_or(0))
        .ok_or_else(|| Fault::damaged("OME-XML names a page that does not exist"))?;

    let mut layout = Layout { vendor: "ome-tiff", levels: generic::levels(pages, main), ..Layout::default() };
    for image in &images[1..] {
        let name = image.attribute("Name").unwrap_or_default().to_lowercase();
        let known = ["label", "macro", "thumbnail", "overview"].into_iter().find(|known| name.contains(known));
        if let (Some(known), Some(page)) = (known, ifd(*image).and_then(|n| top.get(n))) {
            layout.levels.retain(|level| level.page != page.number);
            layout.associated.insert(known.to_owned(), page.number);
        }
    }
    layout.mpp = match (micrometres(pixels, "PhysicalSizeX"), micrometres(pixels, "PhysicalSizeY")) {
        (Some(x), Some(y)) => Some([x, y]),
        _ => None,
    };
    let objective = xml.descendants().find(|node| node.has_tag_name_local("Objective"));
    layout.power =
        objective.and_then(|o| o.attribute("NominalMagnification")?.parse().ok()).filter(|power| *power > 0.0);
    for name in ["SizeX", "SizeY", "SizeC", "SizeZ", "SizeT", "DimensionOrder", "Type"] {
        if let Some(value) = pixels.attribute(name) {
            layout.properties.insert(format!("ome.{name}"), value.to_owned());
        }
    }
    if let Some(name) = images[0].attribute("Name") {
        layout.properties.insert("ome.Name".into(), name.to_owned());
    }
    Ok(layout)
}

fn children<'a, 'i>(node: Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |child| child.has_tag_name_local(name))
}

trait LocalName {
    fn has_tag_name_local(&self, name: &str) -> bool;
}

impl LocalName for Node<'_, '_> {
    /// Ignores the namespace, which contains the year of the schema.
    fn has_tag_name_local(&self, name: &str) -> bool {
        self.is_element() && self.tag_name().name() == name
    }
}

/// A length in micrometres, which is also the default unit.
fn micrometres(node: Node, name: &str) -> Option<f64> {
    let value: f64 = node.attribute(name)?.parse().ok()?;
    let factor = match node.attribute(format!("{name}Unit").as_str()) {
        None | Some("µm" | "μm" | "um") => 1.0,
        Some("nm") => 1e-3,
        Some("mm") => 1e3,
        Some("cm") => 1e4,
        Some("m") => 1e6,
        Some(_) => return None,
    };
    (value > 0.0 && value.is_finite()).then_some(value * factor)
}
