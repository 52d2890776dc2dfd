//! One file per family of golden cases: each turns a case into calls of the library.
pub mod batch;
pub mod data;
pub mod device;
pub mod ensemble;
pub mod inferers;
pub mod losses;
pub mod metrics;
pub mod networks;
pub mod optim;
pub mod patches;
pub mod post;
pub mod resampling;
pub mod schedules;
pub mod transforms_intensity;
pub mod transforms_spatial;
pub mod transforms_utility_post;
pub mod warps;
