//! `hearth_setup`: the table for creating a handler.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};

use hearth_engine::{Event, Filter, OnError, Ranks, When};
use hearth_plugin::__private::Given;
use hearth_plugin::OptionInfo;
use hearth_registry::{Fault, nearest};
use toml::{Table, Value};

use super::call::{c_text, message, text};
use super::table::{self, ABI, FAILED, OK, Setup};

/// All options with a value: those of the recipe, checked, and the defaults of the others.
pub fn resolve(list: &[OptionInfo], given: Table) -> Result<Table, Fault> {
    Given::new(given.clone(), list.to_vec())?;
    let mut all = Table::new();
    for OptionInfo { name, kind, default, .. } in list {
        let default = match default {
            None => None,
            Some(text) => {
                let why = |_| Fault::new(format!("the default of its option `{name}` is not a TOML value: {text}"));
                format!("value = {text}").parse::<Table>().map_err(why)?.remove("value")
            }
        };
        if let Some(value) = given.get(name).cloned().or(default) {
            all.insert(name.clone(), checked(name, kind, value)?);
        }
    }
    Ok(all)
}

/// Checks that a value has the kind of its option. Unknown kinds accept any value.
fn checked(name: &str, kind: &str, value: Value) -> Result<Value, Fault> {
    let fits = match kind {
        "integer" => value.is_integer(),
        "number" => value.is_integer() || value.is_float(),
        "true or false" => value.is_bool(),
        "text" | "path" => value.is_str(),
        _ if kind.starts_with("list of ") => value.is_array(),
        _ => true,
    };
    match (fits, kind, value) {
        (true, "number", Value::Integer(whole)) => Ok(Value::Float(whole as f64)),
        (true, _, value) => Ok(value),
        (false, _, value) => Err(Fault::at(name, format!("expected {kind}, not {value}"))),
    }
}

/// The settings made by `create`.
pub struct SetupDesk {
    options: Table,
    json: CString,
    texts: BTreeMap<String, CString>,
    /// The subscriptions of the handler.
    pub whens: Vec<When>,
    /// The events that it fires.
    pub fires: Vec<String>,
    /// The policy for its errors.
    pub on_error: OnError,
    /// The ranks on which it acts.
    pub ranks: Ranks,
    /// The reason why there is no handler.
    pub fault: Option<Fault>,
}

impl SetupDesk {
    pub fn new(options: Table) -> Self {
        let json = c_text(serde_json::to_string(&options).unwrap_or_default());
        let texts = options.iter().filter_map(|(name, value)| Some((name.clone(), c_text(value.as_str()?)))).collect();
        let (on_error, ranks) = Default::default();
        Self { options, json, texts, whens: Vec::new(), fires: Vec::new(), on_error, ranks, fault: None }
    }

    /// The table, for the duration of one callback.
    pub fn table(&mut self) -> Setup {
        Setup {
            size: size_of::<Setup>(),
            abi: ABI,
            options: self.json.as_ptr(),
            context: std::ptr::from_mut(self).cast(),
            fail,
            integer,
            number,
            boolean,
            text: text_option,
            listen,
            on_error,
            ranks,
            fires,
        }
    }

    /// A subscription of a plugin.
    fn when(&self, when: &table::When) -> Result<When, String> {
        // SAFETY: `hearth_plugin.h` requires it of the plugin.
        let name = unsafe { text(when.event) }?;
        let event = match Event::from_name(name) {
            Some(event) => event,
            None if when.custom == 1 => Event::custom(name),
            None => {
                let known = Event::BUILT_IN.iter().map(|event| event.name()).collect::<Vec<_>>();
                let near = nearest(name, known.iter().map(|name| &**name));
                let near = near.map(|near| format!(", did you mean \"{near}\"?")).unwrap_or_default();
                return Err(format!("it listens to \"{name}\", which is not an event{near}"));
            }
        };
        let set = |number: u64| Some(number).filter(|number| *number > 0);
        let once = (!when.once.is_null() && when.once_count > 0)
            // SAFETY: `hearth_plugin.h` requires of the plugin that this number of values exists.
            .then(|| unsafe { std::slice::from_raw_parts(when.once, when.once_count) }.to_vec());
        let filter =
            Filter { every: set(when.every), once, before: set(when.before), after: set(when.after), accept: None };
        let when = When::from_filter(event, filter);
        when.check().map_err(|error| format!("its subscription is not possible: {error}"))?;
        Ok(when)
    }
}

fn desk<'a>(setup: *const Setup) -> Option<&'a mut SetupDesk> {
    // SAFETY: a plugin passes the table that it received, which `SetupDesk::table` made, during the
    // callback that received it: the desk exists, and nothing else uses it meanwhile.
    unsafe { setup.as_ref().and_then(|setup| setup.context.cast::<SetupDesk>().as_mut()) }
}

/// Writes an option's value, if it has one.
fn answer<T>(setup: *const Setup, name: *const c_char, to: *mut T, read: impl FnOnce(&Value) -> Option<T>) -> i32 {
    // SAFETY: `hearth_plugin.h` requires it of the plugin.
    let name = unsafe { text(name) };
    let value = desk(setup).zip(name.ok()).and_then(|(desk, name)| desk.options.get(name)).and_then(read);
    match value {
        Some(value) if !to.is_null() => {
            // SAFETY: the plugin passes the address of its variable of this type.
            unsafe { to.write(value) };
            OK
        }
        _ => FAILED,
    }
}

extern "C" fn fires(setup: *const Setup, event: *const c_char) -> i32 {
    // SAFETY: `hearth_plugin.h` requires it of the plugin.
    let event = unsafe { text(event) };
    match (desk(setup), event) {
        (Some(desk), Ok(event)) => {
            desk.fires.push(event.to_owned());
            OK
        }
        (Some(desk), Err(why)) => {
            desk.fault = Some(Fault::new(why));
            FAILED
        }
        (None, _) => FAILED,
    }
}

extern "C" fn fail(setup: *const Setup, option: *const c_char, why: *const c_char) -> i32 {
    if let Some(desk) = desk(setup) {
        // SAFETY: `hearth_plugin.h` requires it of the plugin.
        let (option, why) = unsafe { (text(option), message(why)) };
        desk.fault = Some(option.map_or_else(|_| Fault::new(why.clone()), |option| Fault::at(option, why.clone())));
    }
    FAILED
}

extern "C" fn integer(setup: *const Setup, option: *const c_char, value: *mut i64) -> i32 {
    answer(setup, option, value, Value::as_integer)
}

extern "C" fn number(setup: *const Setup, option: *const c_char, value: *mut f64) -> i32 {
    answer(setup, option, value, |value| value.as_float().or(value.as_integer().map(|whole| whole as f64)))
}

extern "C" fn boolean(setup: *const Setup, option: *const c_char, value: *mut i32) -> i32 {
    answer(setup, option, value, |value| value.as_bool().map(i32::from))
}

extern "C" fn text_option(setup: *const Setup, option: *const c_char) -> *const c_char {
    // SAFETY: `hearth_plugin.h` requires it of the plugin.
    let name = unsafe { text(option) };
    let found = desk(setup).zip(name.ok()).and_then(|(desk, name)| desk.texts.get(name));
    found.map_or(std::ptr::null(), |text| text.as_ptr())
}

extern "C" fn listen(setup: *const Setup, when: *const table::When) -> i32 {
    // SAFETY: the plugin passes the address of its record, or null.
    let (Some(desk), Some(when)) = (desk(setup), unsafe { when.as_ref() }) else { return FAILED };
    if when.size < size_of::<table::When>() {
        let whole = size_of::<table::When>();
        let what = format!("its hearth_when has a size of {} instead of {whole} bytes", when.size);
        desk.fault = Some(Fault::new(format!("{what}: set `.size = sizeof(hearth_when)`")));
        return FAILED;
    }
    match desk.when(when) {
        Ok(when) => desk.whens.push(when),
        Err(why) => {
            desk.fault = Some(Fault::new(why));
            return FAILED;
        }
    }
    OK
}

extern "C" fn on_error(setup: *const Setup, policy: i32) {
    if let Some(desk) = desk(setup) {
        desk.on_error = match policy {
            1 => OnError::Disable,
            2 => OnError::Log,
            _ => OnError::Stop,
        };
    }
}

extern "C" fn ranks(setup: *const Setup, ranks: i32) {
    if let Some(desk) = desk(setup) {
        desk.ranks = if ranks == 1 { Ranks::First } else { Ranks::All };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(name: &str, kind: &str, default: Option<&str>) -> OptionInfo {
        let (name, kind, default) = (name.to_owned(), kind.to_owned(), default.map(str::to_owned));
        OptionInfo { name, kind, required: false, default, help: String::new() }
    }

    #[test]
    fn options_are_checked_and_filled_in() {
        let list = [
            option("every", "integer", Some("1")),
            option("rate", "number", Some("0.5")),
            option("file", "text", Some("'a.txt'")),
            option("names", "list of text", None),
        ];
        let all = resolve(&list, "rate = 2".parse().unwrap()).unwrap();
        assert_eq!(serde_json::to_string(&all).unwrap(), r#"{"every":1,"file":"a.txt","rate":2.0}"#);
        let fault = |given: &str| resolve(&list, given.parse().unwrap()).unwrap_err();
        assert_eq!((fault("evry = 2").path.as_str(), fault("evry = 2").suggestion.as_deref()), ("evry", Some("every")));
        assert_eq!(fault("every = 'often'").to_string(), "every: expected integer, not \"often\"");
        assert_eq!(fault("names = 3").path, "names");
        let damaged = resolve(&[option("file", "text", Some("a.txt"))], Table::new()).unwrap_err();
        assert!(damaged.to_string().contains("not a TOML value"), "{damaged}");
    }
}
