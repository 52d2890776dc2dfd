//! Messages of a run. The library prints nothing: a notice is an event of [`tracing`], which a
//! program shows as it likes.

/// The target of notices, for filters. Warnings have the level `warn`, the others `info`.
pub const TARGET: &str = hearth_engine::NOTICE_TARGET;

/// Reports a message.
#[macro_export]
macro_rules! notice {
    ($($arg:tt)*) => { $crate::tracing::info!(target: $crate::notice::TARGET, $($arg)*) };
}

/// Reports a probable mistake of the user.
#[macro_export]
macro_rules! warning {
    ($($arg:tt)*) => { $crate::tracing::warn!(target: $crate::notice::TARGET, $($arg)*) };
}

/// Reports an error that ends a run of several ranks; shown by the rank where it happens.
#[macro_export]
macro_rules! failure {
    ($($arg:tt)*) => { $crate::tracing::error!(target: $crate::notice::TARGET, $($arg)*) };
}
