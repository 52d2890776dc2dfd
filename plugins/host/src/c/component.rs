//! `hearth_work`: components of plugins in C.

use std::borrow::Cow;
use std::ffi::{CString, c_char, c_void};

use hearth_plugin::OptionInfo;
use hearth_registry::Fault;
use hearth_registry::component::{Answer, Component, HostArray, Network};
use serde::Deserialize;

use super::call::{CallDesk, c_text, message, said};
use super::setup::{SetupDesk, resolve};
use super::table::{ABI, Array, FAILED, Functions, OK, Work};
use super::{CPlugin, Listed};
use crate::components::ComponentInfo;

/// One component in the plugin's list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedComponent {
    kind: String,
    name: String,
    #[serde(default)]
    help: String,
    #[serde(default)]
    options: Vec<Listed>,
}

/// A component of a plugin.
struct CComponent {
    functions: Functions,
    data: *mut c_void,
    version: String,
}

// SAFETY: `hearth_plugin.h` states that `compute` and `call` may be called from several threads at once, and
// `release` once, from any thread.
unsafe impl Send for CComponent {}
// SAFETY: as above.
unsafe impl Sync for CComponent {}

impl Drop for CComponent {
    fn drop(&mut self) {
        if let Some(release) = self.functions.release {
            // SAFETY: `make` created it, and nothing uses it any more.
            unsafe { release(self.data) };
        }
    }
}

/// The message, the arrays and the text of a component, and the network that it may run.
#[derive(Default)]
struct WorkDesk<'a, 'b> {
    message: Option<String>,
    made: Vec<HostArray<'static>>,
    text: String,
    network: Option<&'a mut Network<'b>>,
    /// The last output of the network, which the plugin reads.
    output: Option<HostArray<'static>>,
}

impl CPlugin {
    /// The list of components. The error states what is invalid.
    pub fn components(&self) -> Result<Vec<ComponentInfo>, String> {
        let Some(components) = self.functions.components else { return Ok(Vec::new()) };
        let mut desk = CallDesk::new(&self.path);
        // SAFETY: the table that is passed has the functions that `hearth_plugin.h` promises, and
        // outlives the call.
        let code = unsafe { components(&desk.table()) };
        if code != OK {
            return Err(format!("its list of components fails: {}", desk.reason("components", code)));
        }
        let listed: Vec<ListedComponent> = serde_json::from_slice(&desk.bytes)
            .map_err(|e| format!("its list of components is not a JSON list of components: {e}"))?;
        let info = |listed: ListedComponent| ComponentInfo {
            kind: listed.kind,
            name: listed.name,
            help: listed.help,
            options: listed.options.into_iter().map(OptionInfo::from).collect(),
        };
        Ok(listed.into_iter().map(info).collect())
    }

    /// Builds a component from a recipe's table.
    pub fn component(
        &self,
        name: &str,
        list: &[OptionInfo],
        options: toml::Table,
        version: String,
    ) -> Result<std::sync::Arc<dyn Component>, Fault> {
        let make = self.functions.make.ok_or_else(|| Fault::new("it has no `make`, a fault of the plugin"))?;
        let mut desk = SetupDesk::new(resolve(list, options)?);
        let mut data = std::ptr::null_mut();
        let c_name = c_text(name);
        // SAFETY: as in `components`.
        let code = unsafe { make(&desk.table(), c_name.as_ptr(), &mut data) };
        // Released when it is dropped, also after a failure half-way.
        let made = (!data.is_null()).then(|| CComponent { functions: self.functions, data, version });
        if code != OK || desk.fault.is_some() {
            return Err(desk.fault.take().unwrap_or_else(|| Fault::new(said(None, "make", code))));
        }
        let nothing = || Fault::new("its `make` gave no component, a fault of the plugin");
        Ok(std::sync::Arc::new(made.ok_or_else(nothing)?))
    }
}

impl CComponent {
    /// Calls one of the plugin's functions with the table of its input.
    fn work(
        &self,
        function: &str,
        inputs: &[HostArray<'_>],
        text: &str,
        network: Option<&mut Network<'_>>,
        call: impl FnOnce(*const Work) -> i32,
    ) -> Result<Answer, String> {
        let arrays = inputs.iter().map(lend).collect::<Result<Vec<_>, _>>()?;
        let text: CString = c_text(text);
        let mut desk = WorkDesk { network, ..WorkDesk::default() };
        let work = Work {
            size: size_of::<Work>(),
            abi: ABI,
            text: text.as_ptr(),
            inputs: arrays.as_ptr(),
            count: arrays.len(),
            fail,
            give,
            say,
            network: desk.network.is_some().then_some(run_network as _),
            context: std::ptr::from_mut(&mut desk).cast(),
        };
        let code = call(&work);
        if code != OK || desk.message.is_some() {
            return Err(said(desk.message, function, code));
        }
        Ok(Answer { arrays: desk.made, text: desk.text })
    }
}

impl Component for CComponent {
    fn run(&self, inputs: &[HostArray<'_>], text: &str) -> Result<Vec<HostArray<'static>>, String> {
        let compute = self.functions.compute.ok_or("it has no `compute`, a fault of the plugin")?;
        // SAFETY: the component belongs to the plugin; the table and its targets outlive the call.
        let answer = self.work("compute", inputs, text, None, |work| unsafe { compute(self.data, work) })?;
        Ok(answer.arrays)
    }

    fn call(
        &self,
        operation: &str,
        inputs: &[HostArray<'_>],
        text: &str,
        network: Option<&mut Network<'_>>,
    ) -> Result<Answer, String> {
        let call = self.functions.call.ok_or_else(|| format!("{operation}: its table has no `call`"))?;
        let name = c_text(operation);
        // SAFETY: as in `run`.
        self.work("call", inputs, text, network, |work| unsafe { call(self.data, name.as_ptr(), work) })
    }

    fn version(&self) -> String {
        self.version.clone()
    }
}

fn lend(array: &HostArray<'_>) -> Result<Array, String> {
    let mut affine = [0.0; 16];
    for (to, from) in affine.iter_mut().zip(array.affine.iter().flatten()) {
        *to = *from;
    }
    let dimensions = u32::try_from(array.shape.len()).map_err(|e| e.to_string())?;
    let (shape, values) = (array.shape.as_ptr(), array.values.as_ptr());
    Ok(Array { size: size_of::<Array>(), dimensions, shape, values, affine })
}

fn desk<'a>(work: *const Work) -> Option<&'a mut WorkDesk<'a, 'a>> {
    // SAFETY: a plugin passes the table that it received, which `work` made, during the callback
    // that received it: the desk exists, and nothing else uses it meanwhile.
    unsafe { work.as_ref().and_then(|work| work.context.cast::<WorkDesk<'a, 'a>>().as_mut()) }
}

extern "C" fn fail(work: *const Work, why: *const c_char) -> i32 {
    if let Some(desk) = desk(work) {
        // SAFETY: `hearth_plugin.h` requires it of the plugin.
        desk.message = Some(unsafe { message(why) });
    }
    FAILED
}

extern "C" fn give(work: *const Work, array: *const Array) -> i32 {
    // SAFETY: the plugin passes the address of its record, or null.
    let (Some(desk), Some(array)) = (desk(work), unsafe { array.as_ref() }) else { return FAILED };
    match received(array) {
        Ok(array) => desk.made.push(array),
        Err(why) => {
            desk.message = Some(why);
            return FAILED;
        }
    }
    OK
}

extern "C" fn say(work: *const Work, text: *const c_char) -> i32 {
    let Some(desk) = desk(work) else { return FAILED };
    // SAFETY: `hearth_plugin.h` requires it of the plugin.
    match unsafe { super::call::text(text) } {
        Ok(text) => desk.text = text.to_owned(),
        Err(why) => {
            desk.message = Some(why);
            return FAILED;
        }
    }
    OK
}

extern "C" fn run_network(work: *const Work, window: *const Array, output: *mut Array) -> i32 {
    // SAFETY: the plugin passes the addresses of its records, or null.
    let (Some(desk), Some(window), Some(output)) = (desk(work), unsafe { window.as_ref() }, unsafe { output.as_mut() })
    else {
        return FAILED;
    };
    let Some(network) = &mut desk.network else { return FAILED };
    let made = match output.size < size_of::<Array>() {
        true => Err("`network` needs the size of `output` (`sizeof(hearth_array)`)".to_owned()),
        false => received(window).and_then(network),
    };
    match made.and_then(|made| lend(desk.output.insert(made))) {
        Ok(lent) => *output = lent,
        Err(why) => {
            desk.message = Some(why);
            return FAILED;
        }
    }
    OK
}

/// A copy of a plugin's array.
fn received(array: &Array) -> Result<HostArray<'static>, String> {
    let Array { size, dimensions, shape, values, affine } = *array;
    if size < size_of::<Array>() || shape.is_null() || values.is_null() {
        return Err("an array needs its size (`sizeof(hearth_array)`), its shape and its values".to_owned());
    }
    // SAFETY: `hearth_plugin.h` requires of the plugin that this number exists.
    let shape = unsafe { std::slice::from_raw_parts(shape, dimensions as usize) }.to_vec();
    let count = shape.iter().try_fold(1_usize, |all, axis| all.checked_mul(*axis));
    let count = count.filter(|count| *count <= isize::MAX as usize / size_of::<f32>());
    let count = count.ok_or_else(|| format!("an array of shape {shape:?} is too large"))?;
    // SAFETY: as above.
    let values = unsafe { std::slice::from_raw_parts(values, count) }.to_vec();
    let mut rows = [[0.0; 4]; 4];
    for (to, from) in rows.iter_mut().flatten().zip(affine) {
        *to = from;
    }
    Ok(HostArray { shape, values: Cow::Owned(values), affine: rows })
}
