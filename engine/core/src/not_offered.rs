//! [`not_offered!`](crate::not_offered): stubs, by name, for the methods that a host does not
//! support.

/// Writes stubs, by name, for the methods of [`Host`](crate::Host) that a host does not support,
/// within its `impl`.
///
/// A method that can fail returns [`HostError::not_offered`](crate::HostError::not_offered);
/// `learning_rate`, `cases` and `names` return nothing; a request is logged as a warning. A
/// [`Workflow`](crate::Workflow) never receives the requests that the [`Engine`](crate::Engine)
/// itself carries out: the name `requests` means `terminate`, `terminate_epoch`, `interrupt`,
/// `set_metric`, `save_checkpoint`, `load_checkpoint`, `scalar`, `remember`, `recall`, `attach`,
/// `run_info`, `fire` and `call_after`.
///
/// ```
/// use hearth_engine::{Host, HostError, Level, not_offered, trace};
///
/// struct Clock(f64);
///
/// impl Host for Clock {
///     fn output(&mut self, _: &str) -> Result<f64, HostError> { Ok(self.0) }
///     fn log(&mut self, level: Level, message: &str) { trace(level, message); }
///     not_offered! {
///         requests, names, cases, numbers, texts, learning_rate, set_learning_rate, layer_statistics, run, tensor,
///         put_tensor, combine
///     }
/// }
///
/// assert_eq!(Clock(1.5).output("time")?, 1.5);
/// assert_eq!(Clock(1.5).tensor("image").unwrap_err().to_string(), "`tensor image` is not supported");
/// # Ok::<(), HostError>(())
/// ```
#[macro_export]
macro_rules! not_offered {
    ($($method:ident),+ $(,)?) => { $($crate::not_offered!(@ $method);)+ };
    (@ requests) => {
        $crate::not_offered! {
            terminate, terminate_epoch, interrupt, set_metric, save_checkpoint, load_checkpoint, scalar, remember,
            recall, attach, run_info, fire, call_after
        }
    };
    (@ run_info) => {
        fn run_info(&self) -> ::core::result::Result<::std::string::String, $crate::HostError> {
            ::core::result::Result::Err($crate::HostError::not_offered("run_info"))
        }
    };
    (@ fire) => { $crate::not_offered!(@@ fire(event: &str) -> (), "fire {event}"); };
    (@ call_after) => {
        $crate::not_offered!(@@ call_after(time: ::core::time::Duration) -> (), "call_after {time:?}");
    };
    (@ remember) => {
        fn remember(&mut self, key: &str, _: &[u8]) -> ::core::result::Result<(), $crate::HostError> {
            ::core::result::Result::Err($crate::HostError::not_offered(&format!("remember {key}")))
        }
    };
    (@ recall) => {
        fn recall(&self, _: &str) -> ::core::option::Option<::std::vec::Vec<u8>> {
            ::core::option::Option::None
        }
    };
    (@ attach) => {
        fn attach(
            &mut self,
            name: &str,
            _: &$crate::Attachment<'_>,
        ) -> ::core::result::Result<(), $crate::HostError> {
            ::core::result::Result::Err($crate::HostError::not_offered(&format!("attach {name}")))
        }
    };
    (@ terminate) => {
        fn terminate(&mut self, why: &str) {
            $crate::Host::log(self, $crate::Level::Warn, &format!("`terminate` is not supported: {why}"));
        }
    };
    (@ terminate_epoch) => {
        fn terminate_epoch(&mut self, why: &str) {
            $crate::Host::log(self, $crate::Level::Warn, &format!("`terminate_epoch` is not supported: {why}"));
        }
    };
    (@ interrupt) => {
        fn interrupt(&mut self, why: &str) {
            $crate::Host::log(self, $crate::Level::Warn, &format!("`interrupt` is not supported: {why}"));
        }
    };
    (@ set_metric) => {
        fn set_metric(&mut self, name: &str, value: f64) {
            let what = format!("`set_metric` is not supported: {name} = {value}");
            $crate::Host::log(self, $crate::Level::Warn, &what);
        }
    };
    (@ scalar) => {
        fn scalar(&mut self, tag: &str, value: f64) {
            $crate::Host::log(self, $crate::Level::Warn, &format!("`scalar` is not supported: {tag} = {value}"));
        }
    };
    (@ names) => {
        fn names(&self, _: $crate::NamesOf) -> ::std::vec::Vec<::std::string::String> {
            ::std::vec::Vec::new()
        }
    };
    (@ cases) => {
        fn cases(&self) -> ::std::vec::Vec<::std::string::String> {
            ::std::vec::Vec::new()
        }
    };
    (@ learning_rate) => {
        fn learning_rate(&self) -> ::core::option::Option<f64> {
            ::core::option::Option::None
        }
    };
    (@ output) => { $crate::not_offered!(@@ output(name: &str) -> f64, "output {name}"); };
    (@ numbers) => {
        $crate::not_offered!(@@ numbers(name: &str) -> ::std::vec::Vec<::std::vec::Vec<f64>>, "numbers {name}");
    };
    (@ texts) => {
        $crate::not_offered!(@@ texts(name: &str) -> ::std::vec::Vec<::std::string::String>, "texts {name}");
    };
    (@ set_learning_rate) => {
        $crate::not_offered!(@@ set_learning_rate(rate: f64) -> (), "set_learning_rate {rate}");
    };
    (@ layer_statistics) => {
        $crate::not_offered!(
            @@ layer_statistics(of: $crate::LayerValues) -> ::std::vec::Vec<$crate::LayerStatistics>,
            "layer_statistics {of:?}"
        );
    };
    (@ run) => { $crate::not_offered!(@@ run(engine: &str) -> $crate::Metrics, "run {engine}"); };
    (@ tensor) => { $crate::not_offered!(@@ tensor(name: &str) -> $crate::HostTensor<'_>, "tensor {name}"); };
    (@ put_tensor) => {
        fn put_tensor(
            &mut self,
            name: &str,
            _: $crate::HostTensor<'_>,
        ) -> ::core::result::Result<(), $crate::HostError> {
            ::core::result::Result::Err($crate::HostError::not_offered(&format!("put_tensor {name}")))
        }
    };
    (@ combine) => {
        fn combine(
            &mut self,
            _: &[&str],
            _: &$crate::Combine,
            output: &str,
        ) -> ::core::result::Result<(), $crate::HostError> {
            ::core::result::Result::Err($crate::HostError::not_offered(&format!("combine {output}")))
        }
    };
    (@ save_checkpoint) => {
        fn save_checkpoint(
            &mut self,
            request: $crate::CheckpointRequest,
        ) -> ::core::result::Result<(), $crate::HostError> {
            let what = format!("save_checkpoint {}", request.tag);
            ::core::result::Result::Err($crate::HostError::not_offered(&what))
        }
    };
    (@ load_checkpoint) => {
        fn load_checkpoint(&mut self, dir: &::std::path::Path) -> ::core::result::Result<(), $crate::HostError> {
            let what = format!("load_checkpoint {}", dir.display());
            ::core::result::Result::Err($crate::HostError::not_offered(&what))
        }
    };
    (@@ $method:ident($given:ident: $Given:ty) -> $Answer:ty, $what:literal) => {
        fn $method(&mut self, $given: $Given) -> ::core::result::Result<$Answer, $crate::HostError> {
            ::core::result::Result::Err($crate::HostError::not_offered(&format!($what)))
        }
    };
}
