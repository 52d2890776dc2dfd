//! Any pyramid of TIFF pages: smaller versions of the first page, nested in it (SubIFDs) or after
//! it.

use super::layout::{Layout, LevelPage};
use crate::tiff::Page;

pub(super) fn layout(pages: &[Page]) -> Layout {
    let main = pages.iter().find(|page| !page.is_reduced).unwrap_or(&pages[0]);
    let mut layout = Layout { vendor: "generic-tiff", levels: levels(pages, main), ..Layout::default() };
    for page in pages {
        if let Some(name) = associated_name(page).filter(|_| layout.levels.iter().all(|l| l.page != page.number)) {
            layout.associated.entry(name.to_owned()).or_insert(page.number);
        }
    }
    layout
}

/// `main` and its smaller versions, from the largest to the smallest. Of pages of one size (focus
/// planes) the first is used.
pub(super) fn levels(pages: &[Page], main: &Page) -> Vec<LevelPage> {
    let belongs = |page: &&Page| match page.parent {
        Some(parent) => parent == main.number,
        None => page.number >= main.number,
    };
    let mut levels: Vec<LevelPage> = vec![LevelPage::whole(main)];
    for page in pages.iter().filter(belongs).filter(|page| is_smaller_version(main, page)) {
        if levels.iter().all(|level| level.width != page.width) {
            levels.push(LevelPage::whole(page));
        }
    }
    levels.sort_by_key(|level| std::cmp::Reverse(level.width));
    levels
}

/// Whether a page is a reduced version of `main`: the same format, smaller by the same factor along both
/// axes, and marked as reduced (NewSubfileType), nested in it, or tiled. A page of strips without a mark is one
/// if it is smaller by 2, 4, 8, ..., since a thumbnail of a picture has any size.
fn is_smaller_version(main: &Page, page: &Page) -> bool {
    let same_kind =
        (page.samples, page.bits[0], page.segments.tiled) == (main.samples, main.bits[0], main.segments.tiled);
    let smaller = page.width < main.width && page.height < main.height;
    let (x, y) = (main.width as f64 / page.width as f64, main.height as f64 / page.height as f64);
    // Both sizes were rounded: the shorter side determines the factor up to one pixel.
    let slack = 0.01 + 1.0 / page.width.min(page.height) as f64;
    let marked = page.is_reduced || (x > 1.5 && (page.parent.is_some() || page.segments.tiled));
    same_kind && smaller && (x / y - 1.0).abs() < slack && (marked || is_halved(main, page))
}

/// Whether both axes were halved some times; a half pixel is rounded up or down.
fn is_halved(main: &Page, page: &Page) -> bool {
    let halved = |whole: usize, part: usize, times: u32| {
        let factor = 1_usize << times;
        part == whole / factor || part == whole.div_ceil(factor)
    };
    (1..usize::BITS).any(|times| halved(main.width, page.width, times) && halved(main.height, page.height, times))
}

/// `label`, `macro` or `thumbnail`, if the page identifies itself as one.
pub(super) fn associated_name(page: &Page) -> Option<&'static str> {
    let text = page.description().to_lowercase();
    let first = text.split(|c: char| !c.is_ascii_alphabetic()).find(|word| !word.is_empty())?;
    ["label", "macro", "thumbnail"].into_iter().find(|name| *name == first)
}
