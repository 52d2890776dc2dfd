//! Aperio SVS: tiled pages are levels; the others are thumbnail, label and macro image. The first
//! description contains the properties.

use super::layout::{Layout, LevelPage};
use crate::tiff::Page;

pub(super) fn is(pages: &[Page]) -> bool {
    pages[0].segments.tiled && pages[0].description().starts_with("Aperio")
}

pub(super) fn layout(pages: &[Page]) -> Layout {
    let mut layout = Layout { vendor: "aperio", ..Layout::default() };
    for (name, value) in fields(pages[0].description()) {
        layout.properties.insert(format!("aperio.{name}"), value.to_owned());
    }
    let number = |name: &str| {
        let value: f64 = layout.properties.get(name)?.parse().ok()?;
        (value.is_finite() && value > 0.0).then_some(value)
    };
    layout.mpp = number("aperio.MPP").map(|mpp| [mpp, mpp]);
    layout.power = number("aperio.AppMag");
    for page in pages {
        if page.segments.tiled {
            layout.levels.push(LevelPage::whole(page));
        } else if let Some(name) = associated_name(page) {
            layout.associated.insert(name, page.number);
        }
    }
    layout.levels.sort_by_key(|level| std::cmp::Reverse(level.width));
    layout
}

/// The names and values of `a|name = value|name = value`.
fn fields(description: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = description.split('|').skip(1).filter_map(|field| field.split_once('='));
    pairs.map(|(name, value)| (name.trim(), value.trim()))
}

/// The second page is the thumbnail; the second line of label and macro image begins with that
/// word.
fn associated_name(page: &Page) -> Option<String> {
    if page.number == 1 {
        return Some("thumbnail".into());
    }
    let name = page.description().lines().nth(1)?.split_whitespace().next()?;
    name.chars().all(|c| c.is_ascii_alphabetic()).then(|| name.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::fields;

    #[test]
    fn fields_are_split_and_trimmed() {
        let text = "Aperio Image Library v11.2.1 \r\n46000x32914 (240x240) JPEG/RGB Q=30;x|AppMag = 20|Filename = CMU-1|MPP = 0.4990";
        let found: Vec<_> = fields(text).collect();
        assert_eq!(found, [("AppMag", "20"), ("Filename", "CMU-1"), ("MPP", "0.4990")]);
    }
}
