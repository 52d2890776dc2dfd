//! What a run reports while it runs. The library prints nothing: a notice is an event of
//! [`tracing`], which a program shows where it likes.

/// The target of notices, to filter by. Warnings have the level `warn`, the others `info`.
pub const TARGET: &str = hearth_engine::NOTICE_TARGET;

/// Reports a line.
#[macro_export]
macro_rules! notice {
    ($($arg:tt)*) => { $crate::tracing::info!(target: $crate::notice::TARGET, $($arg)*) };
}

/// Reports something that the user may not have meant.
#[macro_export]
macro_rules! warning {
    ($($arg:tt)*) => { $crate::tracing::warn!(target: $crate::notice::TARGET, $($arg)*) };
}

/// Reports what ends a run of several ranks; shown by whichever of them it happens to.
#[macro_export]
macro_rules! failure {
    ($($arg:tt)*) => { $crate::tracing::error!(target: $crate::notice::TARGET, $($arg)*) };
}
