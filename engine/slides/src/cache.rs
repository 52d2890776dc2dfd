//! A cache of decoded tiles with a limit in bytes, shared by all slides.

use std::sync::{Arc, OnceLock};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::error::Fault;
use crate::tiff::Tile;

/// A slide (a unique number for each open slide), its page, and the page's tile.
pub(crate) type TileKey = (u64, u32, u32);

#[derive(Clone)]
struct Bytes;

impl Weighter<TileKey, Arc<Tile>> for Bytes {
    fn weight(&self, _: &TileKey, tile: &Arc<Tile>) -> u64 {
        // The tile's size, plus the cache's overhead.
        tile.bytes.len() as u64 + 128
    }
}

type Tiles = Cache<TileKey, Arc<Tile>, Bytes, DefaultHashBuilder, DefaultLifecycle<TileKey, Arc<Tile>>>;

/// A cache of decoded tiles of any number of slides, limited in bytes. Clones share their content;
/// any number of threads may use it.
///
/// A tile that several threads request at once is decoded by one of them. A slide's tiles are
/// removed when its last clone is dropped.
#[derive(Clone)]
pub struct TileCache {
    tiles: Arc<Tiles>,
}

impl TileCache {
    /// Keeps at most `bytes` bytes of tiles; 0 keeps none.
    pub fn new(bytes: u64) -> Self {
        // Each shard bounds only its own part, so it must hold a large enough number of tiles (a
        // large tile is a megabyte).
        let shards = (bytes >> 24).clamp(1, 16) as usize;
        let options = OptionsBuilder::new()
            .shards(shards)
            .estimated_items_capacity(1024)
            .weight_capacity(bytes)
            .build()
            // Both required capacities are set above; `build` requires nothing else.
            .unwrap_or_else(|error| unreachable!("{error}"));
        let tiles = Cache::with_options(options, Bytes, DefaultHashBuilder::default(), DefaultLifecycle::default());
        TileCache { tiles: Arc::new(tiles) }
    }

    /// The cache shared by all slides that are opened without their own: 256 MiB.
    pub fn shared() -> Self {
        static SHARED: OnceLock<TileCache> = OnceLock::new();
        SHARED.get_or_init(|| TileCache::new(256 << 20)).clone()
    }

    /// Bytes of tiles it currently holds.
    pub fn bytes(&self) -> u64 {
        self.tiles.weight()
    }

    /// The largest number of bytes of tiles that it holds.
    pub fn capacity(&self) -> u64 {
        self.tiles.capacity()
    }

    /// Number of tiles it currently holds.
    pub fn len(&self) -> usize {
        self.tiles.len()
    }

    /// Whether it holds no tiles.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tile, from the cache or by `decode`. Tiles that a file omits (`None`) are not cached.
    pub(crate) fn get(
        &self,
        key: TileKey,
        decode: impl FnOnce() -> Result<Option<Tile>, Fault>,
    ) -> Result<Option<Arc<Tile>>, Fault> {
        let load = || match decode() {
            Ok(Some(tile)) => Ok(Arc::new(tile)),
            Ok(None) => Err(None),
            Err(fault) => Err(Some(fault)),
        };
        match self.tiles.get_or_insert_with(&key, load) {
            Ok(tile) => Ok(Some(tile)),
            Err(None) => Ok(None),
            Err(Some(fault)) => Err(fault),
        }
    }

    pub(crate) fn forget(&self, slide: u64) {
        self.tiles.retain(|key, _| key.0 != slide);
    }
}

impl std::fmt::Debug for TileCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TileCache({} of {} bytes)", self.bytes(), self.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(bytes: usize) -> Tile {
        Tile { width: bytes, bytes: vec![7; bytes] }
    }

    #[test]
    fn it_never_holds_more_than_its_bytes() {
        let cache = TileCache::new(100_000);
        for i in 0..1000u32 {
            let got = cache.get((1, 0, i), || Ok(Some(tile(1000 + i as usize)))).expect("decodes").expect("a tile");
            assert_eq!(got.bytes.len(), 1000 + i as usize);
            assert!(cache.bytes() <= 100_000, "{} bytes after {i}", cache.bytes());
        }
        assert!(cache.len() > 20, "{} tiles", cache.len());
        // A tile larger than the cache is returned, but not cached.
        cache.get((1, 0, 5000), || Ok(Some(tile(200_000)))).expect("decodes");
        assert!(cache.bytes() <= 100_000);
    }

    #[test]
    fn a_tile_is_decoded_once_and_forgotten_with_its_slide() {
        let cache = TileCache::new(1 << 20);
        let decoded = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for i in 0..50 {
                        let count = || {
                            decoded.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                            Ok(Some(tile(100)))
                        };
                        cache.get((3, 0, i), count).expect("decodes");
                    }
                });
            }
        });
        assert_eq!(decoded.into_inner(), 50);
        cache.get((4, 0, 0), || Ok(Some(tile(100)))).expect("decodes");
        cache.forget(3);
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn nothing_is_kept_with_no_bytes_or_of_a_failure() {
        let cache = TileCache::new(0);
        cache.get((1, 0, 0), || Ok(Some(tile(10)))).expect("decodes");
        assert!(cache.is_empty());
        let cache = TileCache::new(1000);
        assert!(cache.get((1, 0, 0), || Err(Fault::damaged("broken"))).is_err());
        assert!(cache.get((1, 0, 1), || Ok(None)).expect("left out").is_none());
        assert!(cache.is_empty());
    }
}
