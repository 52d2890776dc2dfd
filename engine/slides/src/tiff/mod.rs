//! TIFF 6.0 and BigTIFF: directories, pages, tiles.

mod directory;
mod page;
mod read;
mod tags;
mod tile;

pub(crate) use page::{Format, Page};
pub(crate) use read::read_page;
pub use read::{PageInfo, TiffFile, read_tiff, read_tiff_stack};
pub(crate) use tile::Tile;

use crate::error::Fault;
use crate::limits::Limits;
use crate::source::Source;
use directory::Reader;

/// All pages of a file, nested ones after their parents.
pub(crate) fn pages(source: &Source, limits: &Limits) -> Result<Vec<Page>, Fault> {
    let (reader, first) = Reader::new(source, limits)?;
    let directories = reader.directories(first)?;
    let page = |(number, directory)| {
        Page::read(directory, &reader, number).map_err(|fault| fault.within(|| format!("page {number}")))
    };
    directories.iter().enumerate().map(page).collect()
}
